# A thin face over meson and ninja: what people type, with what is missing installed first.
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
export BUILD
MESON_FILES := $(wildcard meson.build meson_options.txt src/*/meson.build tests/*/meson.build \
                 tests/*/*/meson.build)

.PHONY: all demo test crash sim sim-gates bench bench-files bench-disk bench-scale mutants deb check-deb dist check-arm64 install uninstall set-prefix with-tests format clean
all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

$(BUILD)/build.ninja: $(MESON_FILES)
	@scripts/setup build
	@if [ -f $@ ]; then meson setup --reconfigure $(BUILD); \
	 else meson setup --prefix $(PREFIX) $(BUILD); fi >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@mv $(BUILD).log $(BUILD)/meson-logs/setup.txt
	@touch $@

# Builds with gcc and clang, runs every test and check; the last line counts them.
test:
	@scripts/test

# Each of these is a program of its own; ARGS="..." reaches it.
demo: all
	@scripts/setup demo
	@scripts/$@ $(ARGS)

sim mutants crash: with-tests
	@scripts/$@ $(ARGS)

# The rate controller against its whole table of paths and rivals (make test runs a part of it).
sim-gates: with-tests
	@$(BUILD)/tests/sim/controller/controller_gates --full $(ARGS)

# petrel on emulated paths beside TCP and curl, with what it has to reach; on an idle machine. Results go
# to results/, where $(BUILD)/src/lab/petrel-lab report finds them.
bench: all
	@scripts/setup bench
	@$(BUILD)/src/lab/petrel-lab matrix bench $(ARGS)

# Trees of small files beside rsync and tar over ssh; a hundred thousand, or ARGS="--files 1000000".
bench-files: all
	@scripts/setup bench
	@bench/files --build $(BUILD) $(ARGS)

# From disk to disk beside dd on each and iperf3 between; as root, or ARGS="--source DIR --destination DIR".
bench-disk: all
	@scripts/setup bench
	@bench/disk --build $(BUILD) $(ARGS)

# What each number of lanes carries from memory to memory on the processors there are.
bench-scale: all
	@scripts/setup bench
	@bench/mem-to-mem --build $(BUILD) --scale $(ARGS)

# A build that was configured before cmocka was there knows no tests.
with-tests: $(BUILD)/build.ninja
	@scripts/setup test
	@grep -q cmocka $(BUILD)/build.ninja || meson setup --reconfigure $(BUILD) >/dev/null
	@ninja -C $(BUILD)

install: all set-prefix
	@DESTDIR=$(DESTDIR) meson install -C $(BUILD) --no-rebuild --quiet

uninstall: $(BUILD)/build.ninja set-prefix
	@meson introspect --installed $(BUILD) | \
	 python3 -c 'import json, sys; print("\n".join(json.load(sys.stdin).values()))' | \
	 while read -r file; do rm -fv "$(DESTDIR)$$file"; done

# The prefix may be another one than the build was configured with.
set-prefix: $(BUILD)/build.ninja
	@meson introspect --buildoptions $(BUILD) | grep -qF '"value": "$(abspath $(PREFIX))"' || \
	 { meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX)) && ninja -C $(BUILD); } >/dev/null

# A Debian package, as lintian has it, in dist/; check-deb installs it in a root of its own, uses it
# and removes it again.
deb:
	@scripts/setup build
	@scripts/setup package
	@scripts/$@

check-deb: deb
	@scripts/$@

# Static builds for amd64 and arm64, with checksums, in dist/.
dist:
	@scripts/setup build
	@scripts/setup arm64
	@scripts/$@

check-arm64:
	@scripts/setup test
	@scripts/setup arm64
	@scripts/$@

format:
	@find src tests -name '*.[ch]' -print0 | xargs -0 $$(scripts/find-clang-format) -i

clean:
	@rm -rf build build-* dist
