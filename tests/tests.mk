# tests.mk - how tests are run; included by the Makefile.
#
# make test            builds everything, runs every test program and script, prints one summary
# make test T=storage  only the tests whose path contains "storage"
# A test is a program tests/FOLDER/test_*.c or an executable tests/FOLDER/test_*.sh.

T ?=
SCRIPT_TESTS := $(if $(SAN),,$(sort $(wildcard tests/*/test_*.sh)))

test: all $(TESTS)
	BUILD="$(BUILD)" LIBTORCH="$(LIBTORCH)" tests/run.sh "$(T)" $(TESTS) $(SCRIPT_TESTS)

bench: all
	BUILD="$(BUILD)" LIBTORCH="$(LIBTORCH)" scripts/bench/run.sh
