# tests.mk - how tests are run; included by the Makefile.
#
# make test            builds everything, runs every test program and script, prints one summary
# make test T=storage  only the tests whose path contains "storage"
# A test is a program tests/FOLDER/test_*.c or an executable tests/FOLDER/test_*.sh.

T ?=
SCRIPT_TESTS := $(if $(SAN),,$(sort $(wildcard tests/*/test_*.sh)))

# The programs as another release would be: one with a later minor of the protocol, whose messages all
# hold a field that is not known here, and one of another major.  tests/cli/test_upgrade.sh.  And one
# before KILN_MODE_MINOR_DONORS_COARSE: test_small_trouble.sh.
LATER := -UKILN_VERSION -DKILN_VERSION='"later"' -DKILN_WIRE_MINOR=99 -DKILN_WIRE_EXTRA='"\"later\":[1,{\"a\":null}],"'
FOREIGN := -UKILN_VERSION -DKILN_VERSION='"foreign"' -DKILN_WIRE_VERSION=99
OLDER := -UKILN_VERSION -DKILN_VERSION='"older"' -DKILN_WIRE_MINOR=16
release_obj = $(patsubst %,$(BUILD)/obj/$(1)/%.o,$(2))
$(BUILD)/obj/later/%.c.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(LATER) $(CFLAGS_ALL) -MMD -MP -c $< -o $@
$(BUILD)/obj/foreign/%.c.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(FOREIGN) $(CFLAGS_ALL) -MMD -MP -c $< -o $@
$(BUILD)/obj/older/%.c.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(OLDER) $(CFLAGS_ALL) -MMD -MP -c $< -o $@
$(BUILD)/later/kiln-scheduler: $(call release_obj,later,schemas/wire/record.c scheduler/fleet.c scheduler/answer.c) $(call obj,scheduler/main.c) $(call lib,$(USE_scheduler))
	@mkdir -p $(@D)
	$(call say,LINK $@)
	$(CC) $(LDFLAGS_ALL) -pie -o $@ $^ $(SYSLIBS)
$(addprefix $(BUILD)/,later/kiln-worker older/kiln-worker foreign/kiln-worker): $(BUILD)/%/kiln-worker: $(BUILD)/obj/%/schemas/wire/record.c.o $(BUILD)/obj/%/worker/stages/heartbeat.c.o $(call obj,worker/main.c tests/doubles/no_diffusionz.c) $(call lib,$(USE_worker))
	@mkdir -p $(@D)
	$(call say,LINK $@)
	$(CC) $(LDFLAGS_ALL) -pie -o $@ $^ $(SYSLIBS)
OTHER_RELEASES := $(if $(SAN),,$(BUILD)/later/kiln-scheduler $(BUILD)/later/kiln-worker $(BUILD)/older/kiln-worker $(BUILD)/foreign/kiln-worker)

# Tests of the parts of pipeline/ that need no LibTorch: quick to link, and there for sanitizers too.
TORCH_FREE := $(addprefix $(BUILD)/tests/pipeline/,test_tokenizer test_tokenizer_files test_lora test_files_without_memory test_judge_score test_detail test_graph_cache test_text_packed test_load_ring test_teleport_rule test_teleport_gate)
TESTS := $(sort $(TESTS) $(TORCH_FREE))
$(TORCH_FREE): $(BUILD)/tests/pipeline/%: $(BUILD)/obj/tests/pipeline/%.c.o $(BUILD)/libsupport.a $(call lib,$(USE_pipeline))
	@mkdir -p $(@D)
	$(call say,LINK $@)
	$(CC) $(LDFLAGS_ALL) -pie -o $@ $^ -lcmocka $(SYSLIBS) $(TEST_LDFLAGS)

# The CUDA kernels against their references: once on the device, with nothing but CUDA's runtime,
# and once on the host, where tests/doubles/host_cuda/ runs them thread by thread.
KERNEL_CHECKS := tests/gpu/test_kernels.c $(wildcard tests/gpu/kernels/*.c)
$(BUILD)/obj/tests/gpu/%: CPPFLAGS += $(CUDA_HEADERS:%=-isystem %)
$(BUILD)/tests/gpu/test_kernels: $(call obj,$(KERNEL_CHECKS) $(SRC_cuda)) $(call lib,kernels schemas)
	@mkdir -p $(@D)
	$(call say,LINK $@)
	$(CXX) $(LDFLAGS_ALL) -pie -o $@ $^ $(SYSLIBS) -L$(CUDA)/lib64 -lcudart_static -lrt -ldl

$(BUILD)/tests/gpu/test_image_cuda $(BUILD)/tests/gpu/test_text_cuda $(BUILD)/tests/gpu/bench_image: $(call obj,tests/gpu/image_rig.c)
$(BUILD)/tests/gpu/test_graph_cuda $(BUILD)/tests/gpu/test_trouble_cuda $(BUILD)/tests/gpu/test_starts_cuda: $(call obj,tests/gpu/loop_rig.c)

$(BUILD)/tests/gpu/test_ops_cuda $(BUILD)/tests/gpu/test_attention_cuda $(BUILD)/tests/gpu/bench_ops: $(call obj,tests/gpu/ops_rig.c)
$(BUILD)/tests/gpu/bench_ops $(BUILD)/tests/gpu/bench_image: TEST_LDFLAGS := $(RPATH) -Wl,-rpath,'$$ORIGIN/../..'

$(BUILD)/tests/gpu/bench_kernels: $(call obj,tests/gpu/bench_kernels.c tests/gpu/speed_rig.c tests/gpu/speed_pictures.c $(SRC_cuda)) $(call lib,kernels schemas)
	@mkdir -p $(@D)
	$(call say,LINK $@)
	$(CXX) $(LDFLAGS_ALL) -pie -o $@ $^ $(SYSLIBS) -L$(CUDA)/lib64 -lcudart_static -lrt -ldl

host_obj = $(patsubst %,$(BUILD)/obj/host_cuda/%.o,$(1))
# The thread sanitizer does not follow fibers.
HOST_KERNELS := $(if $(findstring thread,$(SAN)),,$(BUILD)/tests/kernels/test_cuda_on_host)
$(BUILD)/obj/host_cuda/%.cu.o: %.cu
	@mkdir -p $(@D)
	$(call say,CXX $<)
	$(CXX) -x c++ -Itests/doubles/host_cuda $(CPPFLAGS) $(CXXFLAGS_ALL) -Wno-unknown-pragmas -Wno-maybe-uninitialized $(SANFLAGS) -MMD -MP -c $< -o $@
$(BUILD)/obj/host_cuda/%.c.o: %.c
	@mkdir -p $(@D)
	$(call say,CC $<)
	$(CC) -Itests/doubles/host_cuda $(CPPFLAGS) $(CFLAGS_ALL) -MMD -MP -c $< -o $@
$(BUILD)/tests/kernels/test_cuda_on_host: $(call host_obj,$(KERNEL_CHECKS) $(SRC_cuda) tests/doubles/host_cuda/host_cuda.c) $(call lib,kernels schemas)
	@mkdir -p $(@D)
	$(call say,LINK $@)
	$(CXX) $(LDFLAGS_ALL) -pie -o $@ $^ $(SYSLIBS)
TESTS := $(sort $(TESTS) $(HOST_KERNELS))

# That the kernels compile for every card they are written for.
.PHONY: gpu-arch-check
gpu-arch-check:
	@test -n "$(CUDA)" || { echo "make gpu-arch-check needs nvcc" >&2; exit 1; }
	@for arch in $(CUDA_ARCH_ALL); do for file in $(SRC_cuda); do \
	  echo "  NVCC  $$file for $$arch"; \
	  "$(CUDA)/bin/nvcc" $(NVCCFLAGS) -gencode=arch=compute_$${arch#sm_},code=$$arch -cubin -o /dev/null $$file || exit 1; \
	done; done

# What is in tests/gpu/ needs a GPU: `make test` only sees that it compiles, where nvcc is.
GPU_TESTS := $(if $(HAVE_TORCH),$(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/gpu/test_*.c)))
GPU_BENCHES := $(if $(HAVE_TORCH),$(addprefix $(BUILD)/tests/gpu/,bench_kernels bench_ops bench_image))
$(GPU_TESTS): TEST_LDFLAGS := $(RPATH) -Wl,-rpath,'$$ORIGIN/../..'

test: all $(TESTS) $(OTHER_RELEASES) $(if $(CUDA),$(GPU_TESTS) $(GPU_BENCHES))
	$(if $(SAN),ASAN_OPTIONS=allocator_may_return_null=1 )BUILD="$(BUILD)" LIBTORCH="$(LIBTORCH)" tests/run.sh "$(T)" $(TESTS) $(SCRIPT_TESTS)

# The whole system under seeded faults.
# make chaos SEEDS=20     seeds 1 to 20;  make chaos SEED=7  that one again, the same plan of faults
SEEDS ?=
SEED ?=
$(BUILD)/tests/chaos/test_chaos: $(call obj,$(filter-out tests/chaos/test_%,$(wildcard tests/chaos/*.c)))
.PHONY: chaos
chaos: $(BUILD)/kiln-scheduler $(BUILD)/kiln-worker $(BUILD)/tests/chaos/test_chaos
	CHAOS_SEEDS="$(or $(SEEDS),5)" CHAOS_SEED="$(SEED)" BUILD="$(BUILD)" KILN_SOURCE="$(CURDIR)" \
	  $(abspath $(BUILD))/tests/chaos/test_chaos
	$(MAKE) hostile

# Somebody hostile who may write to Redis; `make chaos` ends with it.
# make hostile SEEDS=5     seeds 1 to 5;  SEED=3  that one again;  CASE=index-wraps  one known defect
CASE ?=
$(BUILD)/tests/hostile/test_hostile: $(call obj,$(filter-out tests/hostile/test_%,$(wildcard tests/hostile/*.c)))
.PHONY: hostile
hostile: $(PROGRAMS) $(BUILD)/tests/hostile/test_hostile
	HOSTILE_SEEDS="$(or $(SEEDS),5)" HOSTILE_SEED="$(SEED)" HOSTILE_ROUNDS=40 HOSTILE_CASE="$(CASE)" \
	  BUILD="$(BUILD)" KILN_SOURCE="$(CURDIR)" $(abspath $(BUILD))/tests/hostile/test_hostile

# Known defects put back into a work tree of the last commit, one by one: each must make its test fail.
# make hostile-defects D="12 14-orders"   those whose names begin so
D ?=
.PHONY: hostile-defects
hostile-defects:
	tests/hostile/put_back.py $(D)

bench: all
	BUILD="$(BUILD)" LIBTORCH="$(LIBTORCH)" scripts/bench/run.sh

# Ends with 69 where there is no usable GPU, with 1 where something failed, which is then named.
gpu-test: all $(GPU_TESTS)
	@KILN_SOURCE="$(CURDIR)" tests/gpu/run.sh $(abspath $(GPU_TESTS))

gpu-bench: all $(GPU_BENCHES)
	for bench in $(GPU_BENCHES); do $$bench || exit; done
	BUILD="$(BUILD)" scripts/bench/gpu.sh

# Tests that make the n-th call fail (tests/support/faults.h).
FAULT_CALLS := malloc calloc realloc strdup poll send recv fcntl \
  open openat mkostemp fstat mmap write fsync fchmod close rename renameat \
  PQconnectStartParams PQconnectPoll PQsendQuery PQsendQueryParams PQsendPrepare PQsendQueryPrepared \
  PQflush PQconsumeInput PQgetResult PQsetnonblocking PQenterPipelineMode PQpipelineSync \
  PQexitPipelineMode redisConnectWithTimeout redisConnectUnixWithTimeout redisReaderFeed \
  redisReaderGetReply
FAULT_LDFLAGS := $(FAULT_CALLS:%=-Wl,--wrap=%)
$(BUILD)/tests/pipeline/test_files_without_memory $(BUILD)/tests/storage/test_queue_faults $(BUILD)/tests/storage/test_replace: TEST_LDFLAGS := $(FAULT_LDFLAGS)

# A clock that can be set, preloaded into the programs of a test.
$(BUILD)/tests/libclock.so: tests/doubles/clock.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -fPIC -shared -o $@ $<
$(BUILD)/tests/crash/test_clock_back: | $(BUILD)/tests/libclock.so

# --- fuzzing: tests/fuzz/fuzz_NAME.c with seeds/NAME/, by clang's libFuzzer -------------------------
# make fuzz                            every target for FUZZ_SECONDS seconds
# make fuzz F=safetensors FUZZ_SECONDS=600
F ?=
FUZZ_SECONDS ?= 20
FUZZ_CC ?= $(or $(shell command -v clang 2>/dev/null),$(shell command -v clang-14 2>/dev/null))
FUZZERS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*$(F)*.c))

# -w: the ordinary build has the word on warnings; clang's differ.
fuzz:
	@test -n "$(FUZZ_CC)" || { echo "make fuzz needs clang" >&2; exit 1; }
	+$(MAKE) SAN=address,undefined CC=$(FUZZ_CC) BUILD=$(BUILD)/fuzz \
	  CFLAGS="-fsanitize=fuzzer-no-link -w" \
	  $(addprefix $(BUILD)/fuzz/fuzz_,$(FUZZERS))
	tests/fuzz/run.sh $(BUILD)/fuzz $(FUZZ_SECONDS) $(FUZZERS)

# `make test` compiles the targets, so that they follow the code where nobody has clang.
test: $(call obj,$(wildcard tests/fuzz/*.c))

$(BUILD)/fuzz_%: $(BUILD)/obj/tests/fuzz/fuzz_%.c.o $(call lib,gallery cli scheduler pipeline embed storage kernels schemas)
	$(CC) $(LDFLAGS_ALL) -fsanitize=fuzzer -o $@ $^ $(call lib,gallery pipeline embed storage kernels schemas) $(SYSLIBS)

include tests/sim/sim.mk
