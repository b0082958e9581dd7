# `make` lists the targets; each is described by the words after `##` on its own line, below the heading (`##@`)
# of its group. What one needs, and what can be set, is said above it. FEATURES=search,mount builds with full text
# search and with mounts.

CARGO ?= cargo
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
RUN_DIR ?= run
BINARY = $(or $(CARGO_TARGET_DIR),target)/release/newsreel
SHARE = $(or $(CARGO_TARGET_DIR),target)/release/share
# The date that man pages bear: that of the sources.
MAN_DATE ?= $(shell git log -1 --format=%cs 2> /dev/null || date +%F)
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

run: build ## build and serve a site in ./run: port 1119 of 127.0.0.1, 1563 with TLS
	@exec $(BINARY) up --dir $(RUN_DIR)

build: ## compile newsreel (FEATURES=search,mount), make man pages and completions
	$(CARGO) build --release --locked -p newsreel $(if $(FEATURES),--features $(FEATURES))
	@rm -rf $(SHARE) && $(BINARY) docs --share $(SHARE) --date "$(MAN_DATE)"

man: ## make the man pages and completions alone, in target/release/share
	@rm -rf $(SHARE) && $(CARGO) run --quiet --locked -p newsreel -- docs --share $(SHARE) --date "$(MAN_DATE)"

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
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) run --quiet --locked -p tidy
	$(CARGO) run --quiet --locked -p newsreel -- docs | diff docs/config.md - || { echo 'docs/config.md is stale: run make docs'; exit 1; }
	$(CARGO) run --quiet --locked -p newsreel -- docs --figures | diff docs/figures.md - || { echo 'docs/figures.md is stale: run make docs'; exit 1; }
	$(CARGO) metadata --quiet --locked --offline --no-deps --format-version 1 --manifest-path fuzz/Cargo.toml > /dev/null
	@! command -v cargo-deny > /dev/null || $(CARGO) deny --offline check licenses bans sources

# Apart, so that nobody compiles a search engine for the other tests. They leave a binary, whose pages are those
# of `make pages` and two more.
test-search: SEEN = $(or $(CARGO_TARGET_DIR),target)
test-search: ## the tests of the full text search, and its pages
	$(CARGO) clippy --locked -p newssearch --features tantivy -p newsreel --features newsreel/search --all-targets -- -D warnings
	$(CARGO) test --locked -p newssearch --features tantivy
	$(CARGO) test --locked -p operators --features search --lib search
	$(CARGO) test --locked -p newsreel --features search --test main -- searching::
	python3 crates/newsreel/tests/pages/pages.py $(SEEN)/debug/newsreel $(SEEN)/pages

# Three nodes of nats-server, from PATH or NEWSREEL_NATS_SERVER; without it the tests are skipped with a message.
test-cluster: ## the tests of a cluster on a real engine
	$(CARGO) clippy --locked -p cluster --features nats --all-targets -- -D warnings
	$(CARGO) test --locked -p cluster --features nats --test engine

# Needs python3; with npm, axe-core looks at the pages too. Pictures of them are in target/pages.
pages: SEEN = $(or $(CARGO_TARGET_DIR),target)
pages: ## the web pages in a headless chromium, light and dark, narrow and wide
	$(CARGO) build --locked -p newsreel $(if $(FEATURES),--features $(FEATURES))
	python3 crates/newsreel/tests/pages/pages.py $(SEEN)/debug/newsreel $(SEEN)/pages

# CORPUS is a directory of articles, or one with a .tar.xz of them.
soak: ARTICLES = $(or $(CARGO_TARGET_DIR),target)/corpus
soak: ## the long tests, and the crash tests at every step
	@rm -rf $(ARTICLES) && mkdir -p $(ARTICLES)
	@for tar in $(CORPUS)/*.tar.xz; do [ ! -e "$$tar" ] || tar -xJf "$$tar" -C $(ARTICLES); done
	@articles=$(ARTICLES); [ -n "$$(ls $$articles)" ] || articles=$(CORPUS); \
	if [ -d "$$articles" ]; then skip=; else echo "no articles in CORPUS=$(CORPUS): the_corpus_parses is skipped"; skip='--skip the_corpus_parses'; fi; \
	INN=$(INN) NEWSREEL_SOAK_SECONDS=$(SOAK_SECONDS) NEWSREEL_CORPUS=$$(realpath $$articles) $(CARGO) test --workspace --profile soak --locked --no-fail-fast -- \
	  --ignored --nocapture --skip transcripts::inn --skip feeds::inn --skip feeds::page --skip feeds::cnews --skip feeds::triangle \
	  --skip moving_in --skip mounting::inn --skip books_of_a_full_cache $$skip
	$(CARGO) test -p newscache --lib --profile soak --locked -- --ignored --nocapture books_of_a_full_cache
	NEWSREEL_CRASH_EVERY=1 $(CARGO) test -p spool --test stores --profile soak --locked
	NEWSREEL_CRASH_EVERY=1 NEWSREEL_TEST_ROUNDS=20 $(CARGO) test -p newscache --lib --profile soak --locked -- tests::crash tests::rounds
	NEWSREEL_CORPUS=$$(realpath $(ARTICLES)) $(CARGO) test -p newsreel --features search --test main --profile soak --locked -- \
	  --ignored --nocapture searching:: $$([ -n "$$(ls $(ARTICLES))" ] || echo --skip of_a_corpus)

soak-cluster: SEEDS = 1000000
soak-cluster: FIRST_SEED = 100000
soak-cluster: ## simulated clusters with SEEDS seeds from FIRST_SEED on
	NEWSREEL_SEEDS=$(SEEDS) NEWSREEL_FIRST_SEED=$(FIRST_SEED) $(CARGO) test -p cluster --lib --profile soak --locked -- \
	  --ignored --nocapture invariants_hold

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
ARM = aarch64-unknown-linux-gnu
test-aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER = aarch64-linux-gnu-gcc
test-aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER = qemu-aarch64 -L /usr/aarch64-linux-gnu
test-aarch64: ## unit tests as a program for 64-bit ARM, under qemu-user
	rustup target add $(ARM)
	@# qemu knows nothing of the hints with which files are marked.
	$(CARGO) test --locked --target $(ARM) -p netnews -p disk -p spool --lib -- --skip a_mark_stays_with_the_file

##@ Measure

measure: ## print figures of the source: lengths, names, ratchets
	$(CARGO) run --quiet --locked -p tidy -- --measure

size: SIZED = $(or $(CARGO_TARGET_DIR),target)/size/newsreel
size: ## how large the release binary is
	$(CARGO) build --profile size --locked -p newsreel
	@echo "the binary has $$(wc -c < $(SIZED)) bytes"

bench: ## the table of speeds, beside INN (QUICK=1: one short run of each row)
	NNTPLOAD=$(NNTPLOAD) INN=$(INN) crates/lab/bench/bench.sh

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

bench-routing: ## deciding which of 100 peers an article goes to, in 50,000 groups
	$(CARGO) test --profile soak --locked -p ingest --lib routing::tests::speed -- --ignored --nocapture

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

bench-usenetfs: FEATURES = mount
bench-usenetfs: build ## the Usenetfs paper's figures: directories, and a server's day (root)
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab usenetfs --dir $(LAB_DIR) --peers $(PEERS) --docs docs/bench $(LAB_OPTIONS)

bench-cancels: build ## what 100,000 cancels cost the feed of 420,000 articles around them
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab cancels --dir $(LAB_DIR) $(LAB_OPTIONS)

bench-fairness: build ## what one client costs another, beyond its processor time
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab fairness --dir $(LAB_DIR) --docs docs/bench $(LAB_OPTIONS)

# LAB_ROUNDS=5 shortens the first; FEATURES=search has the last measure search; LAB_OPTIONS=--help lists more.
lab-crash: ## kill -9 during a feed, LAB_ROUNDS times, and check everything
lab-scale: ## memory and processor time of 7,000 connections at once
lab-recover: ## time to the first answer after kill -9, 2 million articles (12 GB)
lab-rebuild: ## time to rebuild all indexes of 2 million articles (8 GB)
lab-flat: ## figures of a small and of a huge spool compared (15 GB)
lab-web: ## time of pages, metrics and search on a large spool
lab-crash: LAB_OPTIONS = --rounds $(LAB_ROUNDS)
lab-crash lab-scale lab-recover lab-rebuild lab-flat lab-web: build
	$(CARGO) build --release --locked -p lab --bin lab
	$(or $(CARGO_TARGET_DIR),target)/release/lab $(@:lab-%=%) --dir $(LAB_DIR) $(LAB_OPTIONS)

##@ Package

# Does not compile anything, so root does not need cargo.
install: ## install what `make build` made, below PREFIX; compiles nothing
	@for made in $(BINARY) $(SHARE)/man; do [ -e $$made ] || { echo "there is no $$made; run \"make build\" first, as a user who has cargo" >&2; exit 1; }; done
	install -D -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/newsreel
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/libexec/newsreel packaging/filters/newsreel-filter-perl packaging/filters/newsreel-filter-python
	install -d $(DESTDIR)$(PREFIX)/share/doc/newsreel
	cp -R $(SHARE)/. $(DESTDIR)$(PREFIX)/share
	cp -R README.md CHANGELOG.md docs/config.md packaging $(DESTDIR)$(PREFIX)/share/doc/newsreel
	[ "$$(uname)" != Linux ] || \
	  { install -d $(DESTDIR)/etc/systemd/system && sed 's|/usr/bin/newsreel|$(PREFIX)/bin/newsreel|' packaging/newsreel.service > $(DESTDIR)/etc/systemd/system/newsreel.service; }

# STATIC_PROFILE=dev makes one quickly.
MUSL = x86_64-unknown-linux-musl
STATIC_PROFILE ?= release
static: MADE = $(or $(CARGO_TARGET_DIR),target)/$(MUSL)/$(STATIC_PROFILE:dev=debug)/newsreel
static: ## a binary without libraries of the system (rustup, musl-tools)
	rustup target add $(MUSL)
	$(CARGO) build --profile $(STATIC_PROFILE) --locked --target $(MUSL) -p newsreel $(if $(FEATURES),--features $(FEATURES))
	@ldd $(MADE) 2>&1 | grep -q -e 'statically linked' -e 'not a dynamic' || { echo "$(MADE) needs libraries"; exit 1; }
	@echo "$(MADE) needs no libraries"

DEB = $(dir $(BINARY))newsreel_*.deb

# lintian looks at the package where it is installed.
deb: build ## a Debian package of what `make build` makes, in target/release
	@rm -f $(DEB)
	packaging/deb/build.sh $(BINARY) $(SHARE) $(dir $(BINARY))
	@! command -v lintian > /dev/null || lintian --allow-root --fail-on error $(DEB)

deb-test: deb ## install, upgrade and purge it in a clean Debian (root, debootstrap)
	packaging/deb/test.sh $(DEB)
	packaging/deb/moving.sh $(DEB)

# A release takes long to make, and a package is tried as well with another binary.
TRIAL = $(or $(CARGO_TARGET_DIR),target)/ci
deb-trial: TRIED = $(or $(CARGO_TARGET_DIR),target)/debug/newsreel
deb-trial: ## the same with a package of the binary that tests use
	$(CARGO) build --locked -p newsreel
	@rm -rf $(TRIAL)/deb && mkdir -p $(TRIAL)/deb && $(TRIED) docs --share $(TRIAL)/deb/share --date "$(MAN_DATE)"
	DEB_COMPRESSION=gzip packaging/deb/build.sh $(TRIED) $(TRIAL)/deb/share $(TRIAL)/deb
	packaging/deb/test.sh $(TRIAL)/deb/newsreel_*.deb $(wildcard $(TRIAL)/debian)
	packaging/deb/moving.sh $(TRIAL)/deb/newsreel_*.deb $(wildcard $(TRIAL)/debian)
