#!/bin/bash
# Installs a package of newsreel in a clean Debian, serves an article, upgrades, and purges; the article stays.
#   test.sh DEB [ROOT]    as root; ROOT is a root that debootstrap has made, which is copied
set -euo pipefail

deb=$1 base=${2:-}
[ "$(id -u)" = 0 ] || { echo "this needs root, as it makes a Debian of its own" >&2; exit 1; }
work=$(mktemp -d /var/tmp/newsreel-deb.XXXXXX)
root=$work/root
server=
finish() {
  [ -z "$server" ] || kill "$server" 2> /dev/null || true
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

say "installing"
cp "$deb" "$root/newsreel.deb"
in_root dpkg --install /newsreel.deb > "$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
[ "$(in_root stat -c %U:%G:%a /var/lib/newsreel)" = newsreel:newsreel:750 ]
in_root su -s /bin/sh newsreel -c 'test -w /var/lib/newsreel/newsreel.toml'
for file in lib/systemd/system/newsreel.service usr/share/man/man1/newsreel.1.gz; do [ -s "$root/$file" ]; done
"$(dirname "$0")/../links.py" "$root/usr/share/doc/newsreel/html"
as_newsreel newsreel check --dir /var/lib/newsreel > "$work/log" || grep -q 'cannot listen on 127.0.0.1:119:' "$work/log"

say "serving"
# Without systemd nobody grants the port.
sed -i 's/^listen = .*/listen = ["127.0.0.1:11953"]/' "$root/var/lib/newsreel/newsreel.toml"
chroot "$root" setpriv --reuid=newsreel --regid=newsreel --clear-groups \
  newsreel serve --dir /var/lib/newsreel > "$work/served" 2>&1 &
server=$!
for _ in $(seq 100); do
  as_newsreel newsreel status --dir /var/lib/newsreel 2> /dev/null | grep -q "process" && break
  sleep 0.1
done
printf 'From: Me <me@example.org>\nMessage-ID: <hello@example.org>\n\nHello, world.\n' |
  as_newsreel newsreel post --newsgroups local.test --subject Hello --dir /var/lib/newsreel
exec 5<> /dev/tcp/127.0.0.1/11953
printf 'ARTICLE <hello@example.org>\r\nQUIT\r\n' >&5
grep -q 'Hello, world' <&5
exec 5>&-
kill "$server"
wait "$server" || true
server=

say "upgrading"
dpkg-deb -R "$deb" "$work/newer"
sed -i 's/^Version: .*/&+newer/' "$work/newer/DEBIAN/control"
dpkg-deb --root-owner-group -Zgzip --build "$work/newer" "$root/newer.deb" > /dev/null
cp "$root/var/lib/newsreel/newsreel.toml" "$work/before"
in_root dpkg --install /newer.deb > "$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
cmp "$work/before" "$root/var/lib/newsreel/newsreel.toml"
as_newsreel newsreel explain '<hello@example.org>' --dir /var/lib/newsreel > /dev/null

say "purging"
in_root dpkg --purge newsreel > "$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
grep -q "stays, with its articles" "$work/log"
[ ! -e "$root/usr/bin/newsreel" ] && [ -s "$root/var/lib/newsreel/text0.cyc" ]
in_root getent passwd newsreel > /dev/null
in_root dpkg --install /newsreel.deb > "$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
as_newsreel newsreel explain '<hello@example.org>' --dir /var/lib/newsreel > /dev/null
say "installed, served, upgraded, purged and installed again; the article is there"
