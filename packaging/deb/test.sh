#!/bin/bash
# Installs a package of newsreel in a clean Debian, serves an article, upgrades, and purges; the article stays.
# newsreel-cluster takes its place, and a site of an older version is upgraded, and read whole.
#   test.sh DEB [ROOT]    as root; ROOT is a root that debootstrap has made, which is copied
set -euo pipefail

deb=$1 base=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
[ "$(id -u)" = 0 ] || { echo "this needs root, as it makes a Debian of its own" >&2; exit 1; }
work=$(mktemp -d /var/tmp/newsreel-deb.XXXXXX)
root=$work/root
server=
finish() {
  [ -z "$server" ] || kill "$server" 2> /dev/null || true
  umount "$root/var/lib/newsreel" 2> /dev/null || true
  rm -rf "$work"
}
trap finish EXIT

if [ -n "$base" ]; then
  cp -a "$base" "$root"
else
  debootstrap --variant=minbase --include=adduser,init-system-helpers bookworm "$root" > "$work/log" \
    || { tail "$work/log" >&2; exit 1; }
fi
# No package is to start a server.
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"

in_root() { chroot "$root" "$@"; }
as_newsreel() { chroot "$root" runuser -u newsreel -- "$@"; }
say() { echo "== $*"; }
# dpkg in that root; what it said is in the log.
packages() { in_root dpkg "$@" > "$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }; }
# Makes NAME.deb of the package, with a script for sed on its control file; NAME is a directory until then.
altered() {
  dpkg-deb -R "$deb" "$work/$1"
  sed -i "$2" "$work/$1/DEBIAN/control"
  ! declare -F "also_$1" > /dev/null || "also_$1" "$work/$1"
  dpkg-deb --root-owner-group -Zgzip --build "$work/$1" "$root/$1.deb" > /dev/null
  rm -r "${work:?}/$1"
}
# Starts the server, and waits until it answers; `stop` stops it.
serve() {
  # Without systemd nobody grants the port.
  sed -i 's/^listen = .*/listen = ["127.0.0.1:11953"]/' "$root/var/lib/newsreel/newsreel.toml"
  chroot "$root" setpriv --reuid=newsreel --regid=newsreel --clear-groups \
    newsreel serve --dir /var/lib/newsreel > "$work/served" 2>&1 &
  server=$!
  for _ in $(seq 100); do
    as_newsreel newsreel status --dir /var/lib/newsreel 2> /dev/null | grep -q "process" && return
    kill -0 "$server" || { cat "$work/served" >&2; exit 1; }
    sleep 0.1
  done
}
stop() {
  kill "$server"
  wait "$server" || true
  server=
}

say "installing"
cp "$deb" "$root/newsreel.deb"
packages --install /newsreel.deb
# What it says is true: no server may be started here.
grep -q 'to serve it: systemctl start newsreel' "$work/log"
[ -z "$(grep 'newsreel serve' "$work/log")" ]
[ "$(in_root stat -c %U:%G:%a /var/lib/newsreel)" = newsreel:newsreel:750 ]
in_root su -s /bin/sh newsreel -c 'test -w /var/lib/newsreel/newsreel.toml'
for file in lib/systemd/system/newsreel.service usr/share/man/man1/newsreel.1.gz; do [ -s "$root/$file" ]; done
"$(dirname "$0")/../links.py" "$root/usr/share/doc/newsreel/html"
as_newsreel newsreel check --dir /var/lib/newsreel > "$work/log" || grep -q 'cannot listen on 127.0.0.1:119:' "$work/log"

say "serving"
serve
printf 'From: Me <me@example.org>\nMessage-ID: <hello@example.org>\n\nHello, world.\n' |
  as_newsreel newsreel post --newsgroups local.test --subject Hello --dir /var/lib/newsreel
exec 5<> /dev/tcp/127.0.0.1/11953
printf 'ARTICLE <hello@example.org>\r\nQUIT\r\n' >&5
grep -q 'Hello, world' <&5
exec 5>&-
stop

say "upgrading"
altered newer 's/^Version: .*/&+newer/'
cp "$root/var/lib/newsreel/newsreel.toml" "$work/before"
packages --install /newer.deb
cmp "$work/before" "$root/var/lib/newsreel/newsreel.toml"
as_newsreel newsreel explain '<hello@example.org>' --dir /var/lib/newsreel > /dev/null

say "purging"
packages --purge newsreel
grep -q "stays, with its articles" "$work/log"
[ ! -e "$root/usr/bin/newsreel" ]
[ -s "$root/var/lib/newsreel/text0.cyc" ]
in_root getent passwd newsreel > /dev/null
packages --install /newsreel.deb
as_newsreel newsreel explain '<hello@example.org>' --dir /var/lib/newsreel > /dev/null

say "installing again, on file systems of its own"
again() {
  rm -rf "${root:?}/var/lib/newsreel"
  mkdir "$root/var/lib/newsreel"
  "$@"
  packages --install /newsreel.deb
}
# It is removed, not purged: dpkg names the version that was there. Both look like a new file system.
packages --remove newsreel
again mkdir "$root/var/lib/newsreel/lost+found"
as_newsreel test -w /var/lib/newsreel/newsreel.toml
[ "$(in_root stat -c %U:%a /var/lib/newsreel)" = newsreel:750 ]
packages --remove newsreel
again mount -t tmpfs -o size=64m none "$root/var/lib/newsreel"
grep -q 'no site is made' "$work/log"
[ "$(in_root dpkg-query -W -f '${db:Status-Status}' newsreel)" = installed ]
umount "$root/var/lib/newsreel"
# What a link leads to is not given away.
packages --remove newsreel
rmdir "$root/var/lib/newsreel"
mkdir "$root/elsewhere"
ln -s /elsewhere "$root/var/lib/newsreel"
packages --install /newsreel.deb
[ "$(in_root stat -c %U /elsewhere)" = root ]
rm "$root/var/lib/newsreel"
packages --remove newsreel
packages --install /newsreel.deb
as_newsreel test -w /var/lib/newsreel/newsreel.toml
serve
printf 'From: Me <me@example.org>\nMessage-ID: <hello@example.org>\n\nHello, world.\n' |
  as_newsreel newsreel post --newsgroups local.test --subject Hello --dir /var/lib/newsreel
stop

say "moving to newsreel-cluster"
enabled=$root/etc/systemd/system/multi-user.target.wants/newsreel.service
[ -L "$enabled" ]
altered cluster 's/^Package: .*/Package: newsreel-cluster\nProvides: newsreel\nConflicts: newsreel\nReplaces: newsreel/'
packages --install /cluster.deb
[ -L "$enabled" ]
# What is purged is the other package, whose unit stays enabled.
packages --purge newsreel
[ -L "$enabled" ]
[ ! -e "$root/etc/systemd/system/newsreel.service" ]
[ -x "$root/usr/bin/newsreel" ]
[ -z "$(grep 'rm -r' "$work/log")" ]
as_newsreel newsreel explain '<hello@example.org>' --dir /var/lib/newsreel > /dev/null
packages --purge newsreel-cluster
grep -q "stays, with its articles" "$work/log"
[ ! -L "$enabled" ]

say "upgrading a site of an older version"
rm -r "$root/var/lib/newsreel"
install -d -m 750 "$root/var/lib/newsreel"
for fixture in "$here"/../../crates/spool/tests/fixtures/*.tar.zst; do
  tar --zstd -xf "$fixture" -C "$root/var/lib/newsreel"
  # Its articles and posts are old, and neither expire nor are given up.
  sed -i -e 's/^\[site\]/&\nremember_days = 36500/' -e 's/^\[moderation\]/&\ngive_up_after = "36500 days"/' \
    "$root/var/lib/newsreel/newsreel.toml"
  in_root chown -R newsreel:newsreel /var/lib/newsreel
  in_root chmod -R go= /var/lib/newsreel
  # The program of the older package never ran here, so it is none.
  also_older() { printf '#!/bin/sh\nexit 1\n' > "$1/usr/bin/newsreel"; }
  altered older 's/^Version: .*/Version: 0.0.1/'
  packages --install /older.deb
  packages --install /newsreel.deb
  serve
  "$here/old-site.py" "$root/var/lib/newsreel/expected" 11953
  # Later versions wanted longer passwords.
  case $fixture in *b571c6a*) password=secret ;; *) password="secret of a reader" ;; esac
  printf '%s\n' "$password" | as_newsreel newsreel user check reader --dir /var/lib/newsreel > /dev/null
  stop
  as_newsreel newsreel verify --dir /var/lib/newsreel > /dev/null
  packages --purge newsreel
  find "$root/var/lib/newsreel" -mindepth 1 -delete
done
say "installed, served, upgraded, purged and installed again; the articles are there"
