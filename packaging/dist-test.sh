#!/bin/bash
# Installs and starts what `make dist` has made, each in a clean root and a network of its own, and reads an
# article from it; Debian's package for this machine has deb/test.sh. The recipes for Arch Linux and Nix install
# the tarball's binary.
#   dist-test.sh DIST [ROOT]    as root; ROOT is a Debian that debootstrap has made, which is copied
# What is not in DIST, or lacks the program that tries it, is left out; that is said, and a failure.
set -euo pipefail

# The recipes call make, which must not have the options of the call that this is part of.
unset MAKEFLAGS MFLAGS MAKELEVEL PROFILE
dist=$(realpath "$1") base=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
[ "$(id -u)" = 0 ] || { echo "this needs root, as it makes roots of its own" >&2; exit 1; }
work=$(mktemp -d /var/tmp/newsreel-dist.XXXXXX)
trap 'rm -rf "$work"' EXIT

say() { echo "== $*"; }
quietly() { "$@" > "$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }; }
if [ -z "$base" ]; then
  base=$work/base
  quietly debootstrap --variant=minbase --include=adduser,init-system-helpers bookworm "$base"
fi

# Runs a server by a command in a network of its own, with this machine's address 10.9.9.1 besides, until a reader
# at that address is greeted and has read an article that was posted: NEWSREEL starts commands of the same site.
cat > "$work/trial.sh" << 'TRIAL'
set -euo pipefail
ip link set lo up
ip address add 10.9.9.1/24 dev lo
eval "$SERVE" > "$WORK/served" 2>&1 &
server=$!
trap 'kill $server 2> /dev/null; wait $server || true' EXIT
for _ in $(seq 600); do
  eval "$NEWSREEL status" 2> /dev/null | grep -q process && break
  kill -0 $server || { cat "$WORK/served" >&2; exit 1; }
  sleep 0.1
done
printf 'Message-ID: <hello@example.org>\n\nHello, world.\n' |
  eval "$NEWSREEL post --newsgroups local.test --subject Hello --from me@example.org"
exec 5<> "/dev/tcp/$AT"
printf 'ARTICLE <hello@example.org>\r\nQUIT\r\n' >&5
grep -q 'Hello, world' <&5
TRIAL
trial() {
  AT=$1 SERVE=$2 NEWSREEL=$3 WORK=$work unshare --net --mount --pid --fork --kill-child bash "$work/trial.sh"
}

(cd "$dist" && [ ! -e SHA256SUMS ] || sha256sum --quiet --check SHA256SUMS)
left_out=()
root=$work/root
for file in "$dist"/newsreel-*.rpm; do
  [ -e "$file" ] || { left_out+=(rpm); continue; }
  say "RPM: installing"
  cp -a "$base" "$root"
  # rpm knows nothing of Debian's packages: what that root has becomes what one package provides.
  { echo 'rtld(GNU_HASH)'
    find -L "$root/lib" "$root/usr/lib" -name '*.so.[0-9]*' -type f | /usr/lib/rpm/elfdeps --provides
    rpm -qp --requires "$file" | grep ^/ | while read -r path; do [ ! -x "$root$path" ] || echo "$path"; done
  } | sort -u > "$work/provided"
  { printf 'Name: debian-root\nVersion: 12\nRelease: 1\nSummary: What is there already\nLicense: none\n'
    sed 's/^/Provides: /' "$work/provided"
    printf '%%description\nWhat is there already.\n%%files\n'
  } > "$work/root.spec"
  quietly rpmbuild -bb --quiet --define "_topdir $work/rpmbuild" "$work/root.spec"
  quietly rpm --force-debian --root "$root" --install "$work"/rpmbuild/RPMS/*/debian-root-*.rpm
  quietly rpm --force-debian --root "$root" --install "$file"
  grep -q 'systemctl enable --now newsreel' "$work/log"
  [ "$(chroot "$root" stat -c %U:%a /var/lib/newsreel)" = newsreel:750 ]
  "$here/links.py" "$root/usr/share/doc/newsreel/html"
  sed -i 's/^listen = .*/listen = ["127.0.0.1:1119"]/' "$root/var/lib/newsreel/newsreel.toml"
  as="chroot $root runuser -u newsreel -- newsreel"
  trial 127.0.0.1/1119 "exec $as serve --dir /var/lib/newsreel" "$as --dir /var/lib/newsreel"
  quietly rpm --force-debian --root "$root" --erase newsreel
  [ ! -e "$root/usr/bin/newsreel" ]
  [ -s "$root/var/lib/newsreel/newsreel.toml" ]
  rm -rf "$root"
done

for file in "$dist"/newsreel-*-linux-x86_64.tar.xz; do
  [ -e "$file" ] || { left_out+=(tarball); continue; }
  say "tarball: unpacking"
  mkdir -p "$root/usr/local" "$root/tmp" "$root/dev" "$root/proc"
  tar -xf "$file" --strip-components=1 -C "$root/usr/local"
  for path in share/man/man1/newsreel.1.gz share/man/man8/mount.newsreel.8.gz share/bash-completion/completions/newsreel lib/systemd/system/newsreel.service; do
    [ -s "$root/usr/local/$path" ]
  done
  grep -q '^ExecStart=/usr/local/bin/newsreel' "$root/usr/local/lib/systemd/system/newsreel.service"
  grep -q '^exec /usr/local/bin/newsreel mount' "$root/usr/local/sbin/mount.newsreel"
  "$here/links.py" "$root/usr/local/share/doc/newsreel/html"
  # There is nothing else in that root: no library, no shell.
  as="chroot $root /usr/local/bin/newsreel"
  trial 127.0.0.1/1119 "exec $as up --dir /news" "$as --dir /news"
  rm -rf "$root"
done

for file in "$dist"/newsreel-oci.tar; do
  [ -e "$file" ] || { left_out+=(image); continue; }
  say "image: unpacking"
  mkdir "$work/layout"
  tar -xf "$file" -C "$work/layout"
  quietly umoci unpack --image "$work/layout:latest" "$work/image"
  root=$work/image/rootfs
  [ "$(stat -c %u:%a "$root/var/lib/newsreel")" = 950:750 ]
  enter="env PATH=/usr/bin:/bin NEWSREEL_BUFFER='1 MiB' $(command -v chroot) --userspec=950:950 $root"
  # A reader of a private network, such as the one from which a published port is reached.
  trial 10.9.9.1/1119 "exec $enter /usr/libexec/newsreel/container-entry" \
    "$enter /usr/bin/newsreel --dir /var/lib/newsreel"
  root=$work/root
done

for file in "$dist"/newsreel_*_arm64.deb; do
  [ -e "$file" ] || { left_out+=("package for ARM"); continue; }
  say "package for ARM: starting"
  mkdir "$root"
  dpkg-deb -x "$file" "$root"
  [ "$(dpkg-deb --field "$file" Architecture)" = arm64 ]
  as="qemu-aarch64 -L /usr/aarch64-linux-gnu $root/usr/bin/newsreel"
  trial 127.0.0.1/1119 "exec $as up --dir $work/arm" "$as --dir $work/arm"
  rm -rf "$root"
done

# What the recipes for Arch Linux and Nix install, with the binary of the tarball in place of what they compile.
recipes() {
  local sources=$work/sources binary=$work/static/bin/newsreel tarball
  tarball=$(echo "$dist"/newsreel-*-linux-x86_64.tar.xz)
  [ -e "$tarball" ] || { left_out+=("recipes (tarball)"); return; }
  mkdir "$work/static"
  tar -xf "$tarball" --strip-components=1 -C "$work/static"
  if command -v makepkg > /dev/null; then
    say "recipe for Arch Linux: packing"
    mkdir -p "$sources/src"
    cp "$here"/aur/* "$1" "$sources"
    tar -xf "$1" -C "$sources/src"
    (cd "$sources/src"/newsreel-*/ && mkdir -p target/release && cp "$binary" target/release &&
      quietly "$binary" docs --share target/release/share --date 2026-01-31)
    chmod 755 "$work"
    chown -R nobody "$sources"
    as_nobody() { (cd "$sources" && quietly runuser -u nobody -- env HOME="$sources" makepkg "$@"); }
    as_nobody --printsrcinfo
    grep -q '^pkgbase = newsreel' "$work/log"
    as_nobody --nodeps --repackage
    tar -tf "$sources"/newsreel-*.pkg.tar* > "$work/log"
    for path in .INSTALL usr/bin/newsreel usr/bin/mount.newsreel usr/share/man/man8/mount.newsreel.8.gz; do
      grep -qx "$path" "$work/log"
    done
  else
    left_out+=("recipe for Arch Linux (makepkg)")
  fi
  if command -v nix-instantiate > /dev/null; then
    say "recipe for Nix: installing"
    mkdir -p "$work/nix/out/bin" "$work/nix/tree"
    tar -xf "$1" --strip-components=1 -C "$work/nix/tree"
    cp "$binary" "$work/nix/out/bin"
    printf '#!/bin/sh\nexec cargo run --quiet --locked --manifest-path "%s" -p tidy -- "$@"\n' \
      "$(realpath "$here/..")/Cargo.toml" > "$work/nix/out/bin/tidy"
    chmod 755 "$work/nix/out/bin/tidy"
    # A stand-in for nixpkgs, whose builder returns what the recipe asks of it.
    NIX_STATE_DIR=$work/nix/state NIX_STORE_DIR=$work/nix/store nix-instantiate --eval --strict --json -E '
      let flake = import '"$work/nix/tree/flake.nix"';
          lib = { genAttrs = names: make: builtins.listToAttrs (map (name: { inherit name; value = make name; }) names);
                  importTOML = path: builtins.fromTOML (builtins.readFile path);
                  concatStringsSep = builtins.concatStringsSep;
                  licenses = { asl20 = "Apache-2.0"; mit = "MIT"; }; };
          legacyPackages = lib.genAttrs [ "x86_64-linux" "aarch64-linux" ]
            (system: { rustPlatform.buildRustPackage = asked: asked; });
      in (flake.outputs { self = { lastModifiedDate = "20260131120000"; }; nixpkgs = { inherit lib legacyPackages; }; }
         ).packages.x86_64-linux.default.postInstall' > "$work/nix/script.json"
    (
      cd "$work/nix/tree"
      out=$work/nix/out
      patchShebangs() { :; }
      eval "$(python3 -c 'import json, sys; print(json.load(sys.stdin))' < "$work/nix/script.json")"
    )
    for path in bin/newsreel sbin/mount.newsreel libexec/newsreel/first-site share/man/man8/mount.newsreel.8.gz; do
      [ -s "$work/nix/out/$path" ]
    done
    [ ! -e "$work/nix/out/bin/tidy" ]
    "$here/links.py" "$work/nix/out/share/doc/newsreel/html"
  else
    left_out+=("recipe for Nix (nix-instantiate)")
  fi
}
for file in "$dist"/newsreel-[0-9]*.tar.gz; do
  [ -e "$file" ] || { left_out+=(sources); continue; }
  recipes "$file"
done

# The parts of each package, and of newsreel-cluster the client of its engine.
for file in newsreel newsreel-cluster; do
  [ -e "$dist/$file.cdx.json" ] || { left_out+=("$file.cdx.json"); continue; }
  say "$file.cdx.json: reading"
  python3 - "$dist/$file.cdx.json" << 'BILL'
import json, sys

bill = json.load(open(sys.argv[1]))
parts = bill["components"]
assert bill["bomFormat"] == "CycloneDX" and len(parts) > 100
for part in parts:
    assert part["name"] and part["version"] and part["purl"].startswith("pkg:cargo/"), part
    assert all(one["expression"] and "/" not in one["expression"] for one in part["licenses"]), part
known = {part["bom-ref"] for part in [*parts, bill["metadata"]["component"]]}
assert all({one["ref"], *one["dependsOn"]} <= known for one in bill["dependencies"])
assert ("async-nats" in {part["name"] for part in parts}) == ("cluster" in sys.argv[1])
BILL
done
[ ${#left_out[@]} = 0 ] || { echo "not there, so not tried: ${left_out[*]}"; exit 1; }
say "each of them serves"
