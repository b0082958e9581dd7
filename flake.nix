# newsreel for Nix: nix run . -- up; nix build; in a configuration of NixOS, inputs.newsreel.packages.<system>.default
{
  description = "newsreel, a Usenet server";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
      manifest = (nixpkgs.lib.importTOML ./Cargo.toml).workspace.package;
    in
    {
      packages = each (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = "newsreel";
          version = manifest.version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          cargoBuildFlags = [ "--package" "newsreel" ];
          # They start servers and newsreaders; `make test` runs them.
          doCheck = false;
          postInstall = ''
            $out/bin/newsreel docs --share $out/share --date 1970-01-01
            install -D -m 755 -t $out/libexec/newsreel packaging/filters/*
            install -D -m 644 -t $out/lib/systemd/system packaging/*.service packaging/*.socket
            sed -i "s|=/usr/bin/newsreel|=$out/bin/newsreel|" $out/lib/systemd/system/*.service
          '';
          meta = {
            description = "Usenet server that relays, injects, stores and serves news";
            license = with nixpkgs.lib.licenses; [ asl20 mit ];
            platforms = systems;
            mainProgram = "newsreel";
          };
        };
      });

      devShells = each (pkgs: {
        default = pkgs.mkShell { packages = with pkgs; [ rustup gnumake gcc ]; };
      });
    };
}
