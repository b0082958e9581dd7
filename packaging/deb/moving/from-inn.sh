# INN as its package makes it, with five articles of a peer.

hand_in() {
  exec 4<> /dev/tcp/127.0.0.1/119
  local answer
  read -r answer <&4
  printf 'IHAVE <%s@moving.example>\r\n' "$1" >&4
  read -r answer <&4
  [[ $answer == 335* ]] || { echo "IHAVE: $answer" >&2; return 1; }
  { article "$1" | sed 's/$/\r/'; printf '.\r\nQUIT\r\n'; } >&4
  read -r answer <&4
  exec 4>&-
  [[ $answer == 235* ]] || { echo "article $1: $answer" >&2; return 1; }
}

prepare() {
  install -d -o news -g news /run/news
  # innwatch would have INN refuse articles while this machine is busy.
  sed -i '/^doinnwatch:/d' /etc/news/inn.conf
  echo 'doinnwatch: false' >> /etc/news/inn.conf
  # The entry that the page speaks of.
  echo 'innfeed!:!*:Tc,Wnm*:/usr/lib/news/bin/innfeed' >> /etc/news/newsfeeds
  runuser -u news -- /usr/lib/news/bin/rc.news > /var/log/inn.log 2>&1 < /dev/null
  within_a_minute ctlinnd mode
  ctlinnd newgroup misc.test y tester > /dev/null
  for number in 1 2 3 4 5; do hand_in $number; done
}

# What comes to INN is at the trial a moment later.
trial_is_fed() {
  for number in 6 7 8; do hand_in $number; done
  within_a_minute answers '223 .*<8@moving.example>.*' 1119 'STAT <8@moving.example>'
  newsreel status --dir /var/lib/newsreel-trial | grep inn-itself > /dev/null
}

has_moved() { serves '211 8 1 8 misc.test' 1 2 3 4 5 6 7 8; }
