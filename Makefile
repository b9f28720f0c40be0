# Kiln.  `make help` lists the targets.
#
#   make            build everything that this machine can build (CUDA code only where nvcc is)
#   BUILD=dir       build there instead of build/
#   SAN=address,undefined | thread   the parts without LibTorch under sanitizers, in build-<SAN>/
#   V=1             show whole command lines
#   LIBTORCH=dir    another LibTorch than the one `make setup` unpacked
#
# Folders become archives (build/libschemas.a, ...); programs and tests link the archives that the
# include rule allows them.  config.mak, if there is one, may set any variable.
-include config.mak

SAN ?=
comma := ,
BUILD ?= $(if $(SAN),build-$(subst $(comma),-,$(SAN)),build)
# Root's own cache is closed to others, who shall be able to run what root has built.
CACHE ?= $(if $(filter 0,$(shell id -u)),/var/cache/kiln,$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kiln)
TORCH_VERSION := 2.11.0
LIBTORCH ?= $(CACHE)/libtorch-$(TORCH_VERSION)
CUDA ?= $(patsubst %/bin/nvcc,%,$(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc)))
# The cards to build for, as in CUDA_ARCH="sm_80 sm_89 sm_90a sm_100 sm_120"; each adds to the build's time.
CUDA_ARCH ?= sm_90a
CUDA_ARCH_ALL := sm_80 sm_89 sm_90a sm_100 sm_120
# The toolkit's headers and cuDNN's, wherever the compiler does not look by itself: cuDNN comes with the
# toolkit, with `make setup` on a machine that has a GPU, or beside a torch that pip installed.
CUDA_HEADERS := $(filter-out /usr/include,$(if $(CUDA),$(CUDA)/include) \
  $(patsubst %/cudnn.h,%,$(firstword $(wildcard $(LIBTORCH)/include/cudnn.h $(LIBTORCH)/../nvidia/cudnn/include/cudnn.h))))
CUDA_LIBS := $(wildcard $(LIBTORCH)/../nvidia/cu13/lib)
gencode = $(foreach a,$(1),-gencode=arch=compute_$(a:sm_%=%),code=$(a))
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
DESTDIR ?=
NVCCFLAGS := -I. -std=c++17 -O3 -lineinfo -Xcompiler -fPIC,-Wall,-Wextra

CC ?= gcc
CXX ?= g++
WARN := -Wall -Wextra -Werror -Wshadow -Wformat=2 -Wpointer-arith -Wundef
OPT ?= -O2 -g
HARDEN := -fstack-protector-strong -fPIE
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all)
PACKAGES := jansson libcrypto libpcre2-8 libutf8proc hiredis libpq libcurl libwebp libwebpmux libpng libjpeg libzstd
PKG_CFLAGS := $(shell pkg-config --cflags jansson libcrypto libpcre2-8 libutf8proc libpq libcurl libwebp libwebpmux libpng libjpeg libzstd 2>/dev/null)
CPPFLAGS += -I. -D_GNU_SOURCE $(PKG_CFLAGS) $(if $(SAN),,-D_FORTIFY_SOURCE=2)
# The repository of this tree: a tree without one is not of the repository that it was unpacked in.
GIT := GIT_CEILING_DIRECTORIES='$(abspath $(CURDIR)/..)' git
# The release, as in CHANGELOG.md, and the commit that it was built from.
COMMIT := $(or $(shell $(GIT) describe --always --dirty --exclude '*' 2>/dev/null),$(filter-out $$Format%,$(file <scripts/deb/commit)),unknown)
VERSION := 0.2.0 ($(COMMIT))
CFLAGS_ALL := -std=c11 $(OPT) $(WARN) -Wmissing-prototypes -Wstrict-prototypes $(HARDEN) -fPIC -pthread $(SANFLAGS) $(CFLAGS)
# -g1: describing every type of LibTorch's headers takes three times as long as compiling.
# -fopenmp: without it at::parallel_for, a template, is compiled for one thread.
CXXFLAGS_ALL := -std=c++17 $(OPT) -g1 -Wall -Wextra -Werror -fPIC -pthread -fopenmp $(CXXFLAGS)
LDFLAGS_ALL := -pthread -Wl,-z,relro,-z,now -Wl,--as-needed $(SANFLAGS) $(LDFLAGS)

# --- sources ---------------------------------------------------------------------------------
MAINS := worker/main.c scheduler/main.c scheduler/cli/main.c scheduler/bench/program.c scheduler/gallery/program.c
# A folder's archive holds the folder with the rooms in it.
folder_src = $(filter-out $(MAINS),$(wildcard $(1)/*.c $(1)/*/*.c $(1)/*/*/*.c))
SRC_schemas := $(call folder_src,schemas)
SRC_storage := $(call folder_src,storage)
SRC_kernels := $(call folder_src,kernels)
SRC_pipeline := $(filter-out pipeline/bench/% pipeline/embed/% pipeline/lora/file/%,$(call folder_src,pipeline))
# Search by meaning and LoRA files, which the scheduler links: without LibTorch.
SRC_embed := $(call folder_src,pipeline/embed) $(call folder_src,pipeline/lora/file)
SRC_gallery := $(call folder_src,scheduler/gallery)
SRC_scheduler := $(filter-out scheduler/cli/% scheduler/bench/% scheduler/gallery/%,$(call folder_src,scheduler))
SRC_cli := $(call folder_src,scheduler/cli)
SRC_worker := $(filter-out worker/bench/%,$(call folder_src,worker))
# The rooms of kiln-bench: what needs the model is in a library of its own.
SRC_bench_model := $(call folder_src,worker/bench) $(call folder_src,pipeline/bench)
SRC_bench := $(call folder_src,scheduler/bench) $(SRC_bench_model)
SRC_support := $(call folder_src,tests/support)
SRC_torch_cuda := $(wildcard pipeline/torch/cuda/*.cpp)
SRC_torch := $(filter-out $(SRC_torch_cuda),$(wildcard pipeline/torch/*.cpp pipeline/torch/*/*.cpp))
SRC_cuda := $(wildcard kernels/*.cu kernels/*/*.cu)

FOLDERS := schemas storage kernels embed pipeline scheduler cli gallery worker bench support
obj = $(patsubst %,$(BUILD)/obj/%.o,$(1))
GEN_schemas := $(addprefix $(BUILD)/gen/,sql.o roles.o styles.o reuse.o job.o)
GEN_cli := $(BUILD)/gen/page.o
GEN_scheduler := $(BUILD)/gen/lexicon.o
GEN_gallery := $(BUILD)/gen/gallery.o
GALLERY := $(addprefix scheduler/gallery/safety/,words.txt review.js) schemas/openapi.json
LEXICON := $(addprefix scheduler/router/,lexicon.txt background.txt)
PAGE := $(addprefix scheduler/gallery/parts/,style.css script.js icon.svg local.js)
GEN_bench := $(BUILD)/gen/sheet.o
SHEET := $(addprefix worker/bench/coarse/page/,head.html style.css script.js)
lib = $(foreach f,$(1),$(BUILD)/lib$(f).a)

# What each folder may link: the include rule, once more, for the linker.
USE_schemas := schemas
USE_storage := storage schemas
USE_kernels := kernels schemas
USE_embed := embed storage kernels schemas
USE_pipeline := bench pipeline embed storage kernels schemas
USE_scheduler := scheduler embed storage kernels schemas
USE_cli := cli scheduler embed storage kernels schemas
USE_gallery := gallery cli scheduler embed storage kernels schemas
USE_worker := worker storage kernels schemas
USE_bench := bench cli scheduler embed storage kernels schemas
USE_crash := storage schemas
USE_chaos := storage schemas
USE_hostile := storage schemas
USE_gpu := $(USE_pipeline)

SYSLIBS := -ljansson -lhiredis -lpq -lcurl -lwebp -lwebpmux -lpng -ljpeg -lzstd -lcrypto -lpcre2-8 -lutf8proc -lmicrohttpd -lz -lncursesw -ltinfo -lm
HAVE_TORCH := $(if $(SAN),,$(wildcard $(LIBTORCH)/lib/libtorch_cpu.so))
TORCH_CPPFLAGS := -isystem $(LIBTORCH)/include
# With the C++ library that LibTorch has: a compiler without a shared one would link in a second.
TORCH_LIBS := -L$(LIBTORCH)/lib -ltorch_cpu -lc10 -l:libgomp.so.1 -l:libstdc++.so.6 -Wl,--allow-shlib-undefined
RPATH := -Wl,-rpath,'$$ORIGIN:$$ORIGIN/../lib/kiln:$(abspath $(LIBTORCH))/lib'

PROGRAMS := $(BUILD)/kiln $(BUILD)/kiln-scheduler $(BUILD)/kiln-worker $(BUILD)/kiln-gallery $(BUILD)/kiln-bench
SHARED := $(if $(HAVE_TORCH),$(BUILD)/libdiffusionz.so $(BUILD)/libkiln_bench.so $(if $(and $(CUDA),$(SRC_cuda)$(SRC_torch_cuda)),$(BUILD)/libkiln_cuda.so))

V ?=
ifeq ($(V),)
MAKEFLAGS += -s
endif
say = @printf '  %-5s %s\n' $(1)

.PHONY: all setup test gpu-test bench gpu-bench fuzz demo install clean format help torch-needed FORCE
.DELETE_ON_ERROR:

all: $(if $(SAN),,torch-needed) $(SHARED) $(PROGRAMS)

torch-needed:
	@test -e "$(LIBTORCH)/lib/libtorch_cpu.so" || { \
	  echo "LibTorch is not in $(LIBTORCH). Run 'make setup', or give LIBTORCH=DIR." >&2; exit 1; }

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | sed -n '1,10p'
	@echo "targets: all setup demo test gpu-test bench gpu-bench gpu-arch-check fuzz sim model-check chaos hostile hostile-defects install deb deb-test format clean"

setup:
	scripts/setup.sh "$(LIBTORCH)"

# --- compiling -------------------------------------------------------------------------------
# What names the release is compiled again when that changes.
RELEASED := scheduler/main.c scheduler/cli/command.c scheduler/cli/upkeep/doctor.c scheduler/cli/upkeep/backup.c worker/main.c worker/stages/heartbeat.c worker/verbs/version.c storage/daemon/exporter.c
$(RELEASED:%=$(BUILD)/obj/%.o): $(BUILD)/gen/release
$(RELEASED:%=$(BUILD)/obj/%.o): CPPFLAGS += -DKILN_VERSION='"$(VERSION)"'
$(BUILD)/gen/release: FORCE
	@mkdir -p $(@D)
	@echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' >$@
FORCE:

$(BUILD)/obj/%.c.o: %.c
	@mkdir -p $(@D)
	$(call say,CC $<)
	$(CC) $(CPPFLAGS) $(CFLAGS_ALL) -MMD -MP -c $< -o $@

$(BUILD)/obj/pipeline/torch/cuda/%: CPPFLAGS += $(CUDA_HEADERS:%=-isystem %)

# The clones for AVX-512 in whole registers: gcc prefers half of one.  No threaded jumps: around a
# choice between two numbers gcc would repeat all that follows, divisions included, in every lane;
# clang (`make fuzz`) does not know the flag.
WIDE := $(if $(filter x86_64,$(shell uname -m)),-mprefer-vector-width=512)
UNTHREADED := $(shell $(CC) -fno-thread-jumps -E -x c /dev/null >/dev/null 2>&1 && echo -fno-thread-jumps)
$(BUILD)/obj/kernels/%.c.o: CFLAGS_ALL += -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast $(UNTHREADED) \
    -fopenmp-simd $(WIDE)

$(BUILD)/obj/pipeline/torch/%.cpp.o: pipeline/torch/%.cpp
	@mkdir -p $(@D)
	$(call say,CXX $<)
	$(CXX) $(CPPFLAGS) $(TORCH_CPPFLAGS) $(CXXFLAGS_ALL) -MMD -MP -c $< -o $@

# Kernels are compiled again when they shall run on other cards.
$(call obj,$(SRC_cuda)): $(BUILD)/gen/cuda_arch
$(BUILD)/gen/cuda_arch: FORCE
	@mkdir -p $(@D)
	@echo '$(CUDA_ARCH)' | cmp -s - $@ || echo '$(CUDA_ARCH)' >$@

$(BUILD)/obj/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(call say,NVCC $<)
	$(CUDA)/bin/nvcc $(NVCCFLAGS) $(call gencode,$(CUDA_ARCH)) -MMD -MP -c $< -o $@

$(BUILD)/gen/sql.c: scripts/embed.sh $(sort $(wildcard schemas/sql/*.sql))
	@mkdir -p $(@D)
	scripts/embed.sh kiln_embedded_sql $(filter %.sql,$^) > $@
$(BUILD)/gen/roles.c: scripts/embed.sh schemas/roles.sql
	@mkdir -p $(@D)
	scripts/embed.sh kiln_embedded_roles schemas/roles.sql > $@
$(BUILD)/gen/styles.c: scripts/embed.sh schemas/styles.json
	@mkdir -p $(@D)
	scripts/embed.sh kiln_embedded_styles schemas/styles.json > $@
$(BUILD)/gen/reuse.c: scripts/embed.sh schemas/reuse/words.txt
	@mkdir -p $(@D)
	scripts/embed.sh kiln_embedded_reuse schemas/reuse/words.txt > $@
$(BUILD)/gen/job.c: scripts/embed.sh schemas/job.schema.json
	@mkdir -p $(@D)
	scripts/embed.sh kiln_embedded_job schemas/job.schema.json > $@
$(BUILD)/gen/page.c: scripts/embed.sh $(PAGE)
	@mkdir -p $(@D)
	scripts/embed.sh kiln_embedded_page $(PAGE) > $@
$(BUILD)/gen/lexicon.c: scripts/embed.sh $(LEXICON)
	@mkdir -p $(@D)
	scripts/embed.sh kiln_embedded_lexicon $(LEXICON) > $@
$(BUILD)/gen/sheet.c: scripts/embed.sh $(SHEET)
	@mkdir -p $(@D)
	scripts/embed.sh kiln_embedded_sheet $(SHEET) > $@
$(BUILD)/gen/gallery.c: scripts/embed.sh $(GALLERY)
	@mkdir -p $(@D)
	scripts/embed.sh kiln_embedded_gallery $(GALLERY) > $@
$(BUILD)/gen/%.o: $(BUILD)/gen/%.c
	$(CC) $(CPPFLAGS) $(CFLAGS_ALL) -c $< -o $@

# --- archives: appended to (q), since files of two rooms may have one name ------------------------
define archive
$(BUILD)/lib$(1).a: $(call obj,$(SRC_$(1))) $(GEN_$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	$(AR) qcs $$@ $$^
endef
$(foreach f,$(FOLDERS),$(eval $(call archive,$(f))))

# --- programs --------------------------------------------------------------------------------
$(BUILD)/kiln: $(call obj,scheduler/cli/main.c) $(call lib,$(USE_cli))
	$(call say,LINK $@)
	$(CC) $(LDFLAGS_ALL) -pie -o $@ $^ $(SYSLIBS)

$(BUILD)/kiln-scheduler: $(call obj,scheduler/main.c) $(call lib,$(USE_scheduler))
	$(call say,LINK $@)
	$(CC) $(LDFLAGS_ALL) -pie -o $@ $^ $(SYSLIBS)

# Without LibTorch (sanitizer builds) the worker has the test-card engine alone.
WORKER_ENGINE := $(if $(HAVE_TORCH),$(BUILD)/libdiffusionz.so,$(call obj,tests/doubles/no_diffusionz.c))
$(BUILD)/kiln-worker: $(call obj,worker/main.c) $(call lib,$(USE_worker)) $(WORKER_ENGINE)
	$(call say,LINK $@)
	$(CC) $(LDFLAGS_ALL) -pie -o $@ $^ $(SYSLIBS) $(RPATH) -Wl,--allow-shlib-undefined

# It opens libdiffusionz.so when it searches by caption features.
$(BUILD)/kiln-gallery: $(call obj,scheduler/gallery/program.c) $(call lib,$(USE_gallery))
	$(call say,LINK $@)
	$(CC) $(LDFLAGS_ALL) -pie -o $@ $^ $(SYSLIBS) -ldl $(RPATH)

# It opens libkiln_bench.so when a bench needs the model.
$(BUILD)/kiln-bench: $(call obj,scheduler/bench/program.c) $(call lib,$(USE_bench))
	$(call say,LINK $@)
	$(CC) $(LDFLAGS_ALL) -pie -o $@ $^ $(SYSLIBS) -ldl $(RPATH)

# The engine twice: each library hides all but what its map names.
$(BUILD)/libdiffusionz.so: pipeline/diffusionz.map
$(BUILD)/libkiln_bench.so: $(call obj,$(SRC_bench_model)) $(GEN_bench) $(call lib,worker) worker/bench/bench.map
$(BUILD)/libdiffusionz.so $(BUILD)/libkiln_bench.so: $(call obj,$(SRC_pipeline) $(SRC_torch)) $(call lib,embed storage kernels schemas)
	$(call say,LINK $@)
	$(CXX) $(LDFLAGS_ALL) -shared -Wl,-soname,$(@F) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -Wl,--version-script=$(filter %.map,$^) -Wl,--no-undefined $(TORCH_LIBS) $(SYSLIBS) -ldl $(RPATH)

# Everything CUDA.  libtorch_cuda must stay among its needs: loading it is what registers the GPU.
$(BUILD)/libkiln_cuda.so: $(call obj,$(SRC_cuda) $(SRC_torch_cuda)) $(call lib,kernels schemas)
	$(call say,LINK $@)
	$(CXX) $(LDFLAGS_ALL) -shared -o $@ $^ -L$(LIBTORCH)/lib $(CUDA_LIBS:%=-L%) -Wl,--no-as-needed -ltorch_cuda -lc10_cuda -Wl,--as-needed -l:libcudart.so.13 -ltorch_cpu -lc10 -l:libstdc++.so.6 -Wl,--allow-shlib-undefined $(RPATH) $(foreach l,$(CUDA_LIBS),-Wl,-rpath,'$(realpath $(l))')

# --- tests: tests/FOLDER/test_*.c, each a program linked with what its folder may use --------------
TESTS := $(foreach f,schemas storage kernels embed scheduler cli gallery worker crash chaos hostile $(if $(HAVE_TORCH),pipeline),$(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/$(f)/test_*.c)))
define folder_tests
$(BUILD)/tests/$(1)/%: $(BUILD)/obj/tests/$(1)/%.c.o $(BUILD)/libsupport.a $(call lib,$(USE_$(1))) $(2)
	@mkdir -p $$(@D)
	$$(call say,LINK $$@)
	$(CC) $(LDFLAGS_ALL) -pie -o $$@ $$(filter %.o %.a %.so,$$^) $$(filter %.a,$$^) -lcmocka $(SYSLIBS) $(3) $$(TEST_LDFLAGS)
endef
$(foreach f,schemas storage kernels embed scheduler cli gallery crash chaos hostile,$(eval $(call folder_tests,$(f),,)))
$(eval $(call folder_tests,worker,$(call obj,tests/doubles/no_diffusionz.c),))
$(eval $(call folder_tests,pipeline,$(call obj,$(SRC_torch)),$(TORCH_LIBS) -ldl $(RPATH)))
$(eval $(call folder_tests,gpu,$(call obj,$(SRC_torch)),$(TORCH_LIBS) -ldl))
.SECONDARY:

-include tests/tests.mk
-include scripts/deb/deb.mk

# From a fresh checkout to a gallery.
demo:
	BUILD="$(BUILD)" scripts/demo/demo.sh

# --- install: programs in bin/, our and LibTorch's libraries in lib/kiln, found by rpath ------------
INSTALL_TORCH = libtorch_cpu.so libc10.so libgomp.so.1 libcudart.so.13 libcupti.so.13
install: all $(BUILD)/man/made
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/kiln $(DESTDIR)$(PREFIX)/include/kiln/pipeline \
	  $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/kiln/models
	install -m 755 $(PROGRAMS) $(DESTDIR)$(PREFIX)/bin/
	install -m 755 $(SHARED) $(addprefix $(LIBTORCH)/lib/,$(INSTALL_TORCH)) $(DESTDIR)$(PREFIX)/lib/kiln/
	install -m 644 pipeline/diffusionz_c_api.h pipeline/diffusionz_batch.h $(DESTDIR)$(PREFIX)/include/kiln/pipeline/
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)$(PREFIX)/share/doc/kiln
	for unit in scripts/systemd/*.service scripts/systemd/*.target scripts/systemd/*.timer; do \
	  sed 's#/usr/local/#$(PREFIX)/#' "$$unit" > $(DESTDIR)$(PREFIX)/lib/systemd/system/"$${unit##*/}" || exit 1; done
	install -m 644 -D scripts/systemd/kiln.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/kiln.conf
	install -m 644 -D scripts/systemd/kiln.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/kiln.conf
	install -m 644 README.md scripts/OPERATIONS.md $(DESTDIR)$(PREFIX)/share/doc/kiln/
	cp -r scripts/monitoring $(DESTDIR)$(PREFIX)/share/doc/kiln/
	for page in $(BUILD)/man/man*/*; do \
	  install -m 644 -D "$$page" $(DESTDIR)$(PREFIX)/share/"$${page#$(BUILD)/}" || exit 1; done
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(PREFIX)/share/kiln/sql
	sed 's#@PREFIX@#$(PREFIX)#; s#@VERSION@#$(RELEASE)#' pipeline/diffusionz.pc.in \
	  > $(DESTDIR)$(LIBDIR)/pkgconfig/diffusionz.pc
	install -m 644 schemas/sql/*.sql $(DESTDIR)$(PREFIX)/share/kiln/sql/
	install -m 644 scripts/completion/kiln.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/kiln
	for model in sketch judge; do ! test -d pipeline/models/$$model || \
	  { cp -r pipeline/models/$$model $(DESTDIR)$(PREFIX)/share/kiln/models/ && \
	  chmod -R u=rwX,go=rX $(DESTDIR)$(PREFIX)/share/kiln/models/$$model; } || exit 1; done
	install -d $(DESTDIR)$(PREFIX)/share/kiln/quality
	install -m 644 tests/quality/*.jsonl $(DESTDIR)$(PREFIX)/share/kiln/quality/
	install -m 644 -D tests/quality/reuse/demo.tsv $(DESTDIR)$(PREFIX)/share/kiln/quality/reuse/demo.tsv

# For editors and clang-tidy: one entry a C or C++ file, from the very flags used above.
compile_commands.json: Makefile
	@{ echo '['; sep=; for f in $(foreach d,$(FOLDERS),$(SRC_$(d))) $(MAINS); do test -e $$f || continue; \
	  printf '%s{"directory":"%s","file":"%s","command":"%s"}' "$$sep" "$(CURDIR)" "$$f" \
	    '$(CC) $(subst ",\",$(subst ',,$(CPPFLAGS))) $(CFLAGS_ALL) -c '"$$f"; sep=',\n'; done; \
	  for f in $(SRC_torch); do printf '%s{"directory":"%s","file":"%s","command":"%s"}' "$$sep" "$(CURDIR)" "$$f" \
	    '$(CXX) -I. $(TORCH_CPPFLAGS) $(CXXFLAGS_ALL) -c '"$$f"; sep=',\n'; done; echo; echo ']'; } | sed 's/\\n/\n/g' > $@

clean:
	rm -rf build build-* compile_commands.json

format:
	git ls-files '*.c' '*.h' '*.cpp' '*.cu' | xargs clang-format -i

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
