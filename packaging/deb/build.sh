#!/bin/sh
# Makes a Debian package of what `make build` made, with dpkg-deb alone:
#   build.sh BINARY SHARE DIR    writes DIR/newsreel_VERSION_ARCHITECTURE.deb and prints its name;
# compressed by xz, or by DEB_COMPRESSION.
# `make deb` calls it. The package makes the user newsreel and a site in /var/lib/newsreel; nothing that it or
# the server has written there is ever removed by it.
set -eu

binary=$1 share=$2 out=$3
root=$(cd "$(dirname "$0")/../.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
architecture=$(dpkg --print-architecture)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
umask 022

install -D -m 755 "$binary" "$stage/usr/bin/newsreel"
strip --strip-unneeded --remove-section=.comment "$stage/usr/bin/newsreel"
for filter in newsreel-filter-perl newsreel-filter-python; do
  install -D -m 755 "$root/packaging/filters/$filter" "$stage/usr/libexec/newsreel/$filter"
done
install -D -m 755 "$root/packaging/mount.newsreel" "$stage/usr/sbin/mount.newsreel"
cp -R "$share/." "$stage/usr/share"
# Debian has zsh's completions elsewhere.
mv "$stage/usr/share/zsh/site-functions" "$stage/usr/share/zsh/vendor-completions"
find "$stage/usr/share/man" -type f -exec gzip -9n {} +
for unit in newsreel.service newsreel-mount@.service newsreel-spool-mount@.service; do
  install -D -m 644 "$root/packaging/$unit" "$stage/lib/systemd/system/$unit"
done

doc=$stage/usr/share/doc/newsreel
mkdir -p "$doc"
install -m 644 "$root/README.md" "$root/docs/config.md" "$doc"
cp -R "$root/packaging/newsreel.service.d" "$doc/drop-ins"
install -D -m 644 "$root/packaging/fail2ban/newsreel.conf" "$doc/fail2ban/newsreel.conf"
gzip -9nc "$root/CHANGELOG.md" > "$doc/NEWS.gz"
maintainer=${DEB_MAINTAINER:-the authors of newsreel <newsreel@news.example.org>}
printf 'newsreel (%s) unstable; urgency=medium\n\n  * NEWS.gz says what has changed.\n\n -- %s  %s\n' \
  "$version" "$maintainer" "$(date -Ru -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}")" | gzip -9nc > "$doc/changelog.gz"
{
  printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n'
  printf 'Upstream-Name: newsreel\n\nFiles: *\nCopyright: 2026 the authors of newsreel\nLicense: Apache-2.0 or Expat\n'
  printf ' On Debian systems the Apache License is in /usr/share/common-licenses/Apache-2.0. The other one:\n .\n'
  sed 's/^$/./; s/^/ /' "$root/LICENSE-MIT"
} > "$doc/copyright"

# What the binary itself asks of the C library.
libc=$(objdump -T "$binary" | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -Vu | tail -n 1)
mkdir "$stage/DEBIAN"
cat > "$stage/DEBIAN/control" << CONTROL
Package: newsreel
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -ks "$stage/usr" | cut -f 1)
Depends: adduser, libc6 (>= $libc), libgcc-s1
Recommends: python3
Suggests: default-mta | mail-transport-agent, fuse3
Section: news
Priority: optional
Description: Usenet server that relays, injects, stores and serves news
 newsreel accepts feeds, serves newsreaders, files posts and batches, and stores
 articles in cyclic buffers, in which the newest article overwrites the oldest:
 there is no nightly expiry. The package makes a site in /var/lib/newsreel that
 serves this machine alone; its configuration says how to open it to others.
CONTROL
for script in postinst prerm postrm; do
  install -m 755 "$root/packaging/deb/$script" "$stage/DEBIAN/$script"
done
(cd "$stage" && find usr lib -type f -print0 | sort -z | xargs -0 md5sum) > "$stage/DEBIAN/md5sums"
chmod 644 "$stage/DEBIAN/md5sums" "$stage/DEBIAN/control"
chmod -R u+rwX,go+rX,go-w "$stage"

deb=$out/newsreel_${version}_$architecture.deb
dpkg-deb --root-owner-group "-Z${DEB_COMPRESSION:-xz}" --build "$stage" "$deb" > /dev/null
echo "$deb"
