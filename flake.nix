# newsreel for Nix: nix run . -- up; nix build; in a configuration of NixOS, inputs.newsreel.packages.<system>.default
{
  description = "newsreel, a Usenet server";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
      manifest = (nixpkgs.lib.importTOML ./Cargo.toml).workspace.package;
      # That of the last commit, as YYYY-MM-DD.
      date = nixpkgs.lib.concatStringsSep "-" [
        (builtins.substring 0 4 self.lastModifiedDate)
        (builtins.substring 4 2 self.lastModifiedDate)
        (builtins.substring 6 2 self.lastModifiedDate)
      ];
    in
    {
      packages = each (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = "newsreel";
          version = manifest.version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          cargoBuildFlags = [ "--package" "newsreel" "--package" "tidy" ];
          # They start servers and newsreaders; `make test` runs them.
          doCheck = false;
          # What stage.sh installs is what all packages have; tidy writes the book as HTML and stays outside.
          postInstall = ''
            mv $out/bin/newsreel $out/bin/tidy .
            ./newsreel docs --share share --date ${date}
            ./tidy --html share/doc/newsreel/html
            patchShebangs packaging
            packaging/stage.sh ./newsreel share "" $out
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
