# leafnode as its package makes it, with a group of a server that has three articles.

prepare() {
  newsreel init --dir /upstream --listen 127.0.0.1:1190 --groups /dev/null --buffer '1 MiB' > /dev/null
  newsreel group add misc.test --description 'Trying things out' --dir /upstream > /dev/null
  newsreel serve --dir /upstream > /var/log/upstream.log 2>&1 &
  is_up /upstream
  for number in 1 2 3; do article $number | newsreel rnews --dir /upstream > /dev/null; done
  printf '%s\n' 'server = 127.0.0.1' 'port = 1190' 'expire = 20' 'hostname = news.leafsite.net' \
    > /etc/news/leafnode/config
  install -o news -g news -m 664 /dev/null /var/spool/news/interesting.groups/misc.test
  fetchnews
  [ "$(ls /var/spool/news/misc/test | grep -c '^[0-9]*$')" = 3 ]
}

has_moved() {
  local numbers
  numbers=$(ls /var/spool/news/misc/test | grep '^[0-9]*$' | sort -n)
  serves "211 3 $(head -n 1 <<< "$numbers") $(tail -n 1 <<< "$numbers") misc.test" 1 2 3
}
