# `make` lists the targets; each is described by the words after `##` on its own line, below the heading (`##@`)
# of its group. What one needs, and what can be set, is said above it.

CARGO ?= cargo
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
RUN_DIR ?= run
# The profile of what `make build` makes and packages contain: `fast` and `dev` are compiled in less time.
PROFILE ?= release
BUILT = $(or $(CARGO_TARGET_DIR),target)/$(PROFILE:dev=debug)
BINARY = $(BUILT)/newsreel
SHARE = $(BUILT)/share
# The date that man pages and packages bear: that of the last commit, which files of `make source` have, too.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2> /dev/null || stat -c %Y $(MAKEFILE))
MAN_DATE ?= $(shell date -u -d @$(SOURCE_DATE_EPOCH) +%F)
# How long a real INN runs on a mount in `make soak`.
SOAK_SECONDS ?= 7200
LAB_ROUNDS ?= 50
LAB_DIR ?= /tmp/newsreel-lab
CORPUS ?= ../shared/corpus
NNTPLOAD ?= ../shared/bench/nntpload
PEERS ?= ../shared/peers
INN ?= $(PEERS)/inn
CNEWS ?= $(PEERS)/cnews
INN17 ?= $(PEERS)/inn17
FUZZ_HOST = $(shell rustc -vV | sed -n 's/^host: //p')
FUZZ_FLAGS = --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table

.DEFAULT_GOAL := help
MAKEFILE := $(firstword $(MAKEFILE_LIST))
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.* *## .*/\1/p' $(MAKEFILE))

##@ Run

help: ## this list
	@awk '/^##@ / { printf "%s%s\n", between, substr($$0, 5); between = "\n" } \
	  /^[a-z0-9-]+:.*## / { text = $$0; sub(/:.*/, ""); sub(/.*## /, "", text); printf "  make %-16s %s\n", $$0, text }' $(MAKEFILE)

run: PROFILE = fast
run: has-cargo ## compile quickly, and serve a site in ./run: news on port 1119 of 127.0.0.1, pages on 8119
	@[ -e $(BINARY) ] || echo "newsreel is compiled first: 6 to 11 minutes on two processors, 2 GB of memory, 1 GB of disk"
	$(CARGO) build --profile $(PROFILE) --locked -p newsreel
	@exec $(BINARY) up --dir $(RUN_DIR)

# FEATURES=cluster makes a newsreel that can be a member of a cluster.
build: has-cargo ## compile a release of newsreel, make man pages, completions and documents
	$(CARGO) build --profile $(PROFILE) --locked -p newsreel $(if $(FEATURES),--features $(FEATURES))
	@rm -rf $(SHARE) && $(BINARY) docs --share $(SHARE) --date "$(MAN_DATE)"
	@$(CARGO) run --quiet --locked -p tidy -- --html $(SHARE)/doc/newsreel/html

# Said here, as an older cargo only says that it cannot read the lock file.
.PHONY: has-cargo
RUST = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
has-cargo:
	@has=$$($(CARGO) --version | sed -n 's/^cargo \([0-9.]*\).*/\1/p'); \
	[ "$$(printf '%s\n' $(RUST) "$$has" | sort -V | head -n 1)" = $(RUST) ] || \
	  { echo "newsreel needs cargo $(RUST), and here is $${has:-none}: install rustup from https://rustup.rs, which brings it" >&2; exit 1; }
	@command -v cc > /dev/null || \
	  { echo "newsreel needs a C compiler; on Debian and Ubuntu: apt install build-essential" >&2; exit 1; }

docs: ## write docs/config.md and docs/figures.md from the tables of keys and figures
	$(CARGO) run --quiet -p newsreel -- docs > docs/config.md.new
	mv docs/config.md.new docs/config.md
	$(CARGO) run --quiet -p newsreel -- docs --figures > docs/figures.md.new
	mv docs/figures.md.new docs/figures.md

##@ Test

quick: ## unit tests and transcripts: under a minute after a build
	$(CARGO) test --workspace --lib --bins --locked
	$(CARGO) test --workspace --locked --test main transcripts::

# Most tests wait for a server, a disk or a clock more than they compute. So there are more threads than
# processors, and the largest program of tests runs beside all others, whose output follows at their end.
# TEST_OPTIONS are for the programs of tests, as after `--`; the examples in comments, which are last, have none.
BESIDE = --lib --bins --test articles --test formats --test fuzz --test hostile --test linear --test power --test safe --test stores
test: ## every test
	$(CARGO) test --workspace --locked --no-run
	@export RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$((3 * $$(nproc)))}; said=$$(mktemp); \
	$(CARGO) test --workspace --locked $(BESIDE) -- $(TEST_OPTIONS) > $$said 2>&1 & beside=$$!; \
	$(CARGO) test --workspace --locked --test main -- $(TEST_OPTIONS); ended=$$?; \
	wait $$beside || ended=$$?; cat $$said; rm $$said; exit $$ended
	$(CARGO) test --workspace --locked --doc

check: ## what a commit must pass: format, lints, rules of the tree, stale pages
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --features newsreel/cluster --locked -- -D warnings
	$(CARGO) run --quiet --locked -p tidy
	$(CARGO) run --quiet --locked -p newsreel -- docs | diff docs/config.md - || { echo 'docs/config.md is stale: run make docs'; exit 1; }
	$(CARGO) run --quiet --locked -p newsreel -- docs --figures | diff docs/figures.md - || { echo 'docs/figures.md is stale: run make docs'; exit 1; }
	$(CARGO) metadata --quiet --locked --offline --no-deps --format-version 1 --manifest-path fuzz/Cargo.toml > /dev/null
	@! command -v cargo-deny > /dev/null || $(CARGO) deny --offline check licenses bans sources

# Three nodes of nats-server 2.15.2 or later, from NEWSREEL_NATS_SERVER or PATH; without it the tests are
# skipped with a message. A full disk needs root.
test-engine: ## the log of a cluster on a real engine, while its nodes are killed
	$(CARGO) test --locked -p cluster --features nats --test engine

test-cluster: test-engine ## the same, and whole servers that are members
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$((3 * $$(nproc)))} \
	  $(CARGO) test --locked -p newsreel --features cluster --test cluster -- $(TEST_OPTIONS)

# Needs python3; with npm, axe-core looks at the pages too. Pictures of them are in target/pages.
pages: SEEN = $(or $(CARGO_TARGET_DIR),target)
pages: ## the web pages in a headless chromium, light and dark, narrow and wide
	$(CARGO) build --locked -p newsreel
	python3 crates/newsreel/tests/pages/pages.py $(SEEN)/debug/newsreel $(SEEN)/pages

# CORPUS is a directory of articles, or one with a .tar.xz of them.
soak: ARTICLES = $(or $(CARGO_TARGET_DIR),target)/corpus
soak: ## the long tests, and the crash tests at every step
	@rm -rf $(ARTICLES) && mkdir -p $(ARTICLES)
	@for tar in $(CORPUS)/*.tar.xz; do [ ! -e "$$tar" ] || tar -xJf "$$tar" -C $(ARTICLES); done
	@articles=$(ARTICLES); [ -n "$$(ls $$articles)" ] || articles=$(CORPUS); \
	if [ -d "$$articles" ]; then skip=; else echo "no articles in CORPUS=$(CORPUS): tests of them are skipped"; skip='--skip the_corpus_parses --skip of_a_corpus'; fi; \
	INN=$(INN) NEWSREEL_SOAK_SECONDS=$(SOAK_SECONDS) NEWSREEL_CORPUS=$$(realpath $$articles) $(CARGO) test --workspace --profile fast --locked --no-fail-fast -- \
	  --ignored --nocapture --skip transcripts::inn --skip feeds::inn --skip feeds::page --skip feeds::cnews --skip feeds::triangle \
	  --skip moving_in --skip mounting::inn --skip books_of_a_full_cache $$skip
	$(CARGO) test -p newscache --lib --profile fast --locked -- --ignored --nocapture books_of_a_full_cache
	NEWSREEL_CRASH_EVERY=1 $(CARGO) test -p spool --test stores --profile fast --locked
	NEWSREEL_CRASH_EVERY=1 NEWSREEL_TEST_ROUNDS=20 $(CARGO) test -p newscache --lib --profile fast --locked -- tests::crash tests::rounds

soak-cluster: SEEDS = 1000000
soak-cluster: FIRST_SEED = 100000
soak-cluster: ## simulated clusters with SEEDS seeds from FIRST_SEED on
	NEWSREEL_SEEDS=$(SEEDS) NEWSREEL_FIRST_SEED=$(FIRST_SEED) $(CARGO) test -p cluster --lib --profile fast --locked -- \
	  --ignored --nocapture invariants_hold

# SECONDS=180 is shorter; SEED=N repeats a run.
soak-blows: SECONDS = 3600
soak-blows: ## a cluster whose members, nodes and links are struck under load
	NEWSREEL_BLOW_SECONDS=$(SECONDS) $(if $(SEED),NEWSREEL_SEED=$(SEED)) $(CARGO) test -p newsreel --features cluster \
	  --test cluster --profile fast --locked -- --ignored --nocapture members_survive_blows_under_load

fuzz: ## every fuzz target for FUZZ_SECONDS each (nightly toolchain)
	cd fuzz && RUSTFLAGS="$(FUZZ_FLAGS)" $(CARGO) +nightly build --release --target $(FUZZ_HOST)
	cd fuzz && sh seeds.sh && for target in fuzz_targets/*.rs; do \
	  name=$$(basename $$target .rs); mkdir -p corpus/$$name artifacts/$$name; \
	  echo "== $$name"; \
	  $(or $(CARGO_TARGET_DIR),target)/$(FUZZ_HOST)/release/$$name -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=artifacts/$$name/ corpus/$$name || exit 1; \
	done

# The answers of INN must differ exactly as the transcripts say. INN is where it is installed (peers/inn).
transcripts-inn: ## play the transcripts to INN, and exchange articles with it
	INN=$(INN) INN17=$(INN17) $(CARGO) test --workspace --locked --test main -- --ignored --nocapture --skip sixty_kills \
	  transcripts::inn feeds::inn::inn_takes feeds::page feeds::triangle moving_in::a_site_that_has book::from_inn mounting::inn_on_a_mount

# CNEWS is where C News is installed (peers/cnews).
batches-inn: ## exchange batches and partial feeds with INN and C News (root)
	INN=$(INN) CNEWS=$(CNEWS) $(CARGO) test --workspace --locked --test main -- --ignored --nocapture \
	  feeds::inn::batches feeds::inn::a_part feeds::cnews moving_in::a_site_of_c_news

triangle: ## two newsreels and an INN feed each other and are killed 60 times (root)
	INN=$(INN) $(CARGO) test --workspace --locked --test main -- --ignored --nocapture sixty_kills

# Needs rustup, and Debian's gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user.
test-aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER = aarch64-linux-gnu-gcc
test-aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER = qemu-aarch64 -L /usr/aarch64-linux-gnu
test-aarch64: ## unit tests as a program for 64-bit ARM, under qemu-user
	rustup target add $(ARM)
	@# qemu knows nothing of the hints with which files are marked.
	$(CARGO) test --locked --target $(ARM) -p netnews -p disk \
	  -p spool-base -p spool-journal -p spool-history -p spool-methods -p spool --lib -- --skip a_mark_stays_with_the_file

##@ Measure

measure: ## print figures of the source: lengths, names, ratchets
	$(CARGO) run --quiet --locked -p tidy -- --measure

size: build ## how large the release binary is
	@strip -o $(BINARY).stripped $(BINARY)
	@echo "the binary has $$(wc -c < $(BINARY).stripped) bytes"

bench: ## the table of speeds, beside INN (QUICK=1: one short run of each row)
	NNTPLOAD=$(NNTPLOAD) INN=$(INN) crates/lab/bench/bench.sh

# ONLY="web fairness" for some of them. Continues where an interrupted run ended.
bench-all: ## every measurement of this group, on an idle machine
	MAKE="$(MAKE)" ONLY="$(ONLY)" crates/lab/bench/all.sh

# LAB_OPTIONS="--many 540000": as many articles as the paper's server kept, too.
bench-spool: build ## the CNFS paper's comparison of storage methods, beside INN's
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab spool --dir $(LAB_DIR) --corpus $(CORPUS) --peers $(PEERS) --docs docs/bench $(LAB_OPTIONS)

bench-cores: build ## how the rate of filing grows with processors (root)
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab cores --dir $(LAB_DIR) --docs docs/bench $(LAB_OPTIONS)

bench-feeds: build ## what feeding peers costs, beside INN with innfeed
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab feeds --dir $(LAB_DIR) --inn $(INN) $(LAB_OPTIONS)

# ARTICLES=3000 is shorter; PROFILE=fast is compiled in less time.
bench-cluster: ARTICLES = 90000
bench-cluster: ## a cluster of three members on this machine, beside its engine and a single server
	NEWSREEL_BENCH_ARTICLES=$(ARTICLES) $(CARGO) test -p newsreel --features cluster --test cluster --profile $(PROFILE) --locked -- \
	  --ignored --nocapture what_a_cluster_costs

bench-routing: ## deciding which of 100 peers an article goes to, in 50,000 groups
	$(CARGO) test --profile fast --locked -p ingest --lib routing::tests::speed -- --ignored --nocapture

bench-rnews: build ## how fast rnews files a batch, beside INN's
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab rnews --dir $(LAB_DIR) --inn $(INN) $(LAB_OPTIONS)

bench-cnews: build ## the C News paper's appendix, beside C News and INN
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab cnews --dir $(LAB_DIR) --peers $(PEERS) --docs docs/bench $(LAB_OPTIONS)

bench-expire: build ## expiry of 100,000 articles that are due, beside INN and C News
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab expire --dir $(LAB_DIR) --peers $(PEERS) --docs docs/bench $(LAB_OPTIONS)

# LEAFNODE=/usr/sbin measures leafnode, too.
bench-newscache: build ## the NewsCache paper's tables, beside NewsCache (root)
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab newscache --dir $(LAB_DIR) --newscache $(PEERS)/newscache $(if $(LEAFNODE),--leafnode $(LEAFNODE)) --docs docs/bench $(LAB_OPTIONS)

bench-usenetfs: build ## the Usenetfs paper's figures: directories, and a server's day (root)
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab usenetfs --dir $(LAB_DIR) --peers $(PEERS) --docs docs/bench $(LAB_OPTIONS)

bench-cancels: build ## what 100,000 cancels cost the feed of 420,000 articles around them
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab cancels --dir $(LAB_DIR) $(LAB_OPTIONS)

bench-fairness: build ## what one client costs another, beyond its processor time
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab fairness --dir $(LAB_DIR) --docs docs/bench $(LAB_OPTIONS)

bench-web: build ## pages, searches and moving in, beside public-inbox
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab web --beside --dir $(LAB_DIR) --docs docs/bench $(LAB_OPTIONS)

# LAB_ROUNDS=5 shortens the first; LAB_OPTIONS=--help lists more.
lab-crash: ## kill -9 during a feed, LAB_ROUNDS times, and check everything
lab-scale: ## memory and processor time of 7,000 connections at once
lab-recover: ## time to the first answer after kill -9, 2 million articles (12 GB)
lab-rebuild: ## time to rebuild all indexes of 2 million articles (8 GB)
lab-flat: ## figures of a small and of a huge spool compared (15 GB)
lab-web: ## time of pages, metrics and search on a large spool
lab-crash: LAB_OPTIONS = --rounds $(LAB_ROUNDS)
lab-crash lab-scale lab-recover lab-rebuild lab-flat lab-web: build
	$(CARGO) build --profile $(PROFILE) --locked -p lab --bin lab
	$(BUILT)/lab $(@:lab-%=%) --dir $(LAB_DIR) $(LAB_OPTIONS)

##@ Package

# Does not compile anything, so root does not need cargo.
install: ## install what `make build` made, below PREFIX; compiles nothing
	@for made in $(BINARY) $(SHARE)/man; do [ -e $$made ] || { echo "there is no $$made; run \"make build\" first, as a user who has cargo" >&2; exit 1; }; done
	packaging/stage.sh $(BINARY) $(SHARE) "$(DESTDIR)" $(PREFIX)

DIST = $(or $(CARGO_TARGET_DIR),target)/dist
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# In the environment of what makes packages alone: some crates are compiled again where it changes.
DATED = SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH)
# `dist` empties its directory first. Cargo uses all processors by itself.
.NOTPARALLEL:
# A Debian that debootstrap has made, where there is one; tests copy it instead of making one.
DEBIAN = $(wildcard $(or $(CARGO_TARGET_DIR),target)/ci/debian)

deb: build ## a Debian package, for this machine
	@mkdir -p $(DIST)
	$(DATED) packaging/deb/build.sh $(BINARY) $(SHARE) $(DIST)

# A build of its own: few sites need it, and it is linked with the client of NATS (decision 150).
deb-cluster: export DEB_FLAVOUR = cluster
deb-cluster: ## a Debian package of a newsreel that can be a member of a cluster
	$(MAKE) deb FEATURES=cluster CARGO_TARGET_DIR=$(abspath $(or $(CARGO_TARGET_DIR),target))/cluster DIST=$(abspath $(DIST))

# lintian looks at the package where it is installed.
DEB = $(DIST)/newsreel_$(VERSION)_$(shell dpkg --print-architecture).deb
deb-test: deb ## install, upgrade and purge it in a clean Debian (root, debootstrap, zstd)
	@! command -v lintian > /dev/null || lintian --allow-root --fail-on error $(DEB)
	packaging/deb/test.sh $(DEB) $(DEBIAN)
	packaging/deb/moving.sh $(DEB) $(DEBIAN)

# A release takes long to make, and a package is tried as well with another binary.
deb-trial: export DEB_COMPRESSION = gzip
deb-trial: ## the same with a package of the binary that tests use
	$(MAKE) deb-test PROFILE=dev DIST=$(or $(CARGO_TARGET_DIR),target)/ci/deb

# Needs rustup, and Debian's gcc-aarch64-linux-gnu and libc6-dev-arm64-cross.
ARM = aarch64-unknown-linux-gnu
ARM_BINARY = $(or $(CARGO_TARGET_DIR),target)/$(ARM)/$(PROFILE:dev=debug)/newsreel
deb-arm64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER = aarch64-linux-gnu-gcc
deb-arm64: export DEB_ARCHITECTURE = arm64
deb-arm64: export STRIP = aarch64-linux-gnu-strip
deb-arm64: export OBJDUMP = aarch64-linux-gnu-objdump
deb-arm64: build ## a Debian package for 64-bit ARM, cross-compiled
	rustup target add $(ARM)
	$(CARGO) build --profile $(PROFILE) --locked --target $(ARM) -p newsreel
	@mkdir -p $(DIST)
	$(DATED) packaging/deb/build.sh $(ARM_BINARY) $(SHARE) $(DIST)

rpm: build ## an RPM, for this machine (rpmbuild)
	@mkdir -p $(DIST)
	$(DATED) packaging/rpm/build.sh $(BINARY) $(SHARE) $(abspath $(DIST))

# Needs rustup and Debian's musl-tools.
MUSL = x86_64-unknown-linux-musl
STATIC = $(or $(CARGO_TARGET_DIR),target)/$(MUSL)/$(PROFILE:dev=debug)/newsreel
static: ## a binary that needs no library of the system
	rustup target add $(MUSL)
	$(CARGO) build --profile $(PROFILE) --locked --target $(MUSL) -p newsreel
	@ldd $(STATIC) 2>&1 | grep -q -e 'statically linked' -e 'not a dynamic' || { echo "$(STATIC) needs libraries"; exit 1; }
	@echo "$(STATIC) needs no libraries"

tarball: build static ## that binary with manuals, completions, units and documents
	@mkdir -p $(DIST)
	$(DATED) packaging/tarball.sh $(STATIC) $(SHARE) $(DIST) x86_64

# Needs python3, Debian's busybox-static and ca-certificates, and no network.
oci: static ## an image for podman and docker
	@mkdir -p $(DIST)
	@strip -o $(STATIC).stripped $(STATIC)
	$(DATED) packaging/oci/build.py $(STATIC).stripped /bin/busybox /etc/ssl/certs/ca-certificates.crt $(DIST)/newsreel-oci.tar

sbom: ## what the server and newsreel-cluster are built of, as CycloneDX
	@mkdir -p $(DIST)
	@$(CARGO) run --quiet --locked -p tidy -- --sbom > $(DIST)/newsreel.cdx.json
	@$(CARGO) run --quiet --locked -p tidy -- --sbom cluster > $(DIST)/newsreel-cluster.cdx.json

source: ## the sources of the last commit, as a tarball
	@mkdir -p $(DIST)
	git archive --prefix=newsreel-$(VERSION)/ HEAD | gzip -9n > $(DIST)/newsreel-$(VERSION).tar.gz

dist: dist-empty deb deb-cluster deb-arm64 rpm tarball oci sbom source ## all of these, with checksums, in target/dist
	cd $(DIST) && sha256sum * > SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS

.PHONY: dist-empty
dist-empty:
	@rm -rf $(DIST)

# As root, with rpm, qemu-user, umoci, makepkg, libarchive-tools, nix-bin, zstd and debootstrap beside what they
# are made with.
dist-test: dist deb-test ## install and start each of them in a clean root
	packaging/dist-test.sh $(DIST) $(DEBIAN)

# Where the advisories cannot be reached, it says so.
advisories: ## known faults of the crates in use (cargo-deny, network)
	@command -v cargo-deny > /dev/null || { echo "cargo-deny is not installed: advisories are not looked at"; exit 0; }; \
	timeout 60 git ls-remote https://github.com/RustSec/advisory-db HEAD > /dev/null 2>&1 || \
	  { echo "the database of advisories cannot be reached: they are not looked at"; exit 0; }; \
	$(CARGO) deny check advisories
