# sim.mk - the simulation and the model of a job's life; included by tests/tests.mk.
#
# make sim SEEDS=1000     a thousand seeds, two at once, without their logs
# make sim SEED=42        one, with every event
# make sim STRIKE=kill-worker SEEDS=1000   one blow at each of its steps; README.md has the other kinds
# The programs' objects are the ones that are installed; the linker puts virtual time under them.

SIM_WRAPPED := clock_gettime nanosleep getentropy pthread_create pthread_join pthread_detach \
  pthread_mutex_init pthread_mutex_lock pthread_mutex_unlock pthread_cond_init pthread_cond_destroy \
  pthread_cond_timedwait pthread_cond_signal pthread_cond_broadcast getpid gethostname kill _exit \
  pthread_sigmask signal sigtimedwait kiln_log_fields kiln_policy_new kiln_policy_free
SIM_OBJ := $(call obj,$(filter-out $(wildcard tests/sim/test_*.c),$(wildcard tests/sim/*.c)) \
  $(addprefix tests/hostile/,bytes.c values.c shapes.c))
SIM := $(BUILD)/tests/sim/sim

$(SIM): $(SIM_OBJ) $(call lib,worker scheduler embed storage kernels schemas)
	@mkdir -p $(@D)
	$(call say,LINK $@)
	$(CC) $(LDFLAGS_ALL) -pie -o $@ $^ $(SIM_WRAPPED:%=-Wl,--wrap=%) $(SYSLIBS)

STRIKE ?=
.PHONY: sim model-check
sim: $(SIM)
	$(SIM) $(if $(STRIKE),--strike $(STRIKE)) \
	  $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),1000) --at-once 2)

model-check:
	tests/sim/model_check.sh $(BUILD)/model

# Sanitizers know nothing of fibers; those builds have no simulation.
ifeq ($(SAN),)
test: $(SIM)
endif

# The servers in memory against real ones.
$(BUILD)/tests/sim/test_%: $(BUILD)/obj/tests/sim/test_%.c.o $(call obj,$(addprefix tests/sim/,tables.c tables_move.c redis.c)) \
    $(BUILD)/libsupport.a $(call lib,storage schemas)
	@mkdir -p $(@D)
	$(call say,LINK $@)
	$(CC) $(LDFLAGS_ALL) -pie -o $@ $^ -lcmocka $(SYSLIBS)
SIM_TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/sim/test_*.c))
TESTS += $(SIM_TESTS)
test: $(SIM_TESTS)
