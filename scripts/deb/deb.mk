# deb.mk - manual pages and Debian packages; included by the Makefile.
#
# make deb        the packages, into $(BUILD)/deb; needs debhelper and chrpath
# make deb-test   installs, upgrades and removes them in a system made by debootstrap
RELEASE := $(firstword $(VERSION))
# A commit after the release sorts behind it, and the later one of two behind the earlier.
DEB_VERSION ?= $(RELEASE)$(shell $(GIT) describe --exact-match --tags --match 'v$(RELEASE)' >/dev/null 2>&1 || \
  TZ=UTC $(GIT) log -1 --date=format-local:%Y%m%d%H%M%S --format=+git%cd.%h 2>/dev/null)
DEB := $(BUILD)/deb
# Higher levels take minutes for LibTorch, and save 5 %.  DEB_COMPRESSION=-Znone for a quick try.
DEB_COMPRESSION ?= -Zxz -z1

.PHONY: deb deb-test
$(BUILD)/man/made: scripts/deb/man.py $(PROGRAMS)
	@rm -rf $(@D)
	$(call say,MAN $(@D))
	SOURCE_DATE_EPOCH=$$($(GIT) log -1 --format=%ct 2>/dev/null || date +%s) \
	  python3 scripts/deb/man.py $(BUILD) $(@D) $(RELEASE)
	@touch $@

# LibTorch's CUDA half and all of CUDA that `GPU=1 make setup` has put beside it; what is left out is
# Python's or a profiler's.
DEB_CUDA = $(if $(and $(filter %/libkiln_cuda.so,$(SHARED)),$(wildcard $(LIBTORCH)/lib/libcudnn.so.9)),$(filter-out \
  $(addprefix %/,$(INSTALL_TORCH) libtorch.so libtorch_python.so libtorch_global_deps.so libshm.so \
  libnvperf_host.so libnvperf_target.so libcheckpoint.so libpcsamplingutil.so),$(wildcard $(LIBTORCH)/lib/lib*.so*)))

deb: all
	@rm -rf $(DEB)
	@mkdir -p $(DEB)/tree
	cp -r scripts/deb $(DEB)/tree/debian
	cp -r CHANGELOG.md scripts/examples $(DEB)/tree/debian/
	printf 'kiln (%s) unstable; urgency=medium\n\n  * CHANGELOG.md says what changed.\n\n -- %s  %s\n' '$(DEB_VERSION)' \
	  'The Kiln developers <kiln@kiln.invalid>' "$$($(GIT) log -1 --format=%cD 2>/dev/null || date -R)" >$(DEB)/tree/debian/changelog
	$(if $(DEB_CUDA),,@echo "deb: without kiln-worker-cuda, which needs nvcc at \`make\` and the libraries of GPU=1 make setup")
	cd $(DEB)/tree && MAKEFLAGS= KILN='$(MAKE) -C $(CURDIR) install BUILD=$(abspath $(BUILD)) LIBTORCH=$(LIBTORCH) CUDA=$(CUDA)' \
	  KILN_CUDA='$(DEB_CUDA)' KILN_COMPRESSION='$(DEB_COMPRESSION)' dpkg-buildpackage -b -us -uc >../log 2>&1 || { tail -n 20 ../log >&2; exit 1; }
	@ls $(DEB)/*.deb

deb-test: deb
	BUILD="$(BUILD)" tests/packages/run.sh
