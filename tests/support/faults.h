/* faults.h - makes the n-th call of a kind fail, in code that was linked with --wrap.
 *
 * A test that wants it gets its linker flags in tests/tests.mk (FAULT_LDFLAGS).  Only calls from
 * Kiln's own objects are counted: the libraries' inner ones are theirs.
 *
 *     for (int n = 1; ; n++) {
 *         kiln_fault_arm(KILN_FAULT_MEMORY, n, false);
 *         ... the operation; if it fails, the error is checked and it is repeated ...
 *         if (!kiln_fault_disarm())
 *             break;                      // it takes fewer than n calls: all were tried
 *     }
 */
#ifndef KILN_TEST_FAULTS_H
#define KILN_TEST_FAULTS_H

#include <stdbool.h>
#include <stddef.h>

enum kiln_fault {
    KILN_FAULT_MEMORY, /* malloc, calloc, realloc, strdup: NULL */
    KILN_FAULT_SYSTEM, /* poll, send, recv, fcntl: -1 */
    KILN_FAULT_FILE,   /* open, openat, mkostemp, fstat, mmap, write, fsync, fchmod, close, rename,
                          renameat: EIO */
    KILN_FAULT_POSTGRES, /* libpq */
    KILN_FAULT_REDIS,    /* hiredis */
    KILN_FAULT_COUNT
};

/* The n-th call of this kind from now on fails, or with keep_on that one and all later ones. */
void kiln_fault_arm(enum kiln_fault kind, int n, bool keep_on);
/* The same, of calls of this name alone ("fsync"), with this errno. */
void kiln_fault_arm_call(enum kiln_fault kind, const char *call, int number, int n, bool keep_on);
/* write takes at most so many bytes at a time; 0: as many as it likes. */
void kiln_fault_short_writes(size_t most);
/* How often fsync was called of a directory since the program began, successfully. */
int kiln_fault_synced_folders(void);
/* All is well again; whether anything failed since kiln_fault_arm. */
bool kiln_fault_disarm(void);

#endif
