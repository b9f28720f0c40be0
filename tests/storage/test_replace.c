/* test_replace.c - a file is there whole or as it was before, whichever call fails on the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/formats/replace.h"
#include "tests/support/faults.h"
#include "tests/support/files.h"

#define LONG 100000 /* bytes */

static struct kiln_error err;
static char text_of_new[LONG + 1];

static int set_up(void **state)
{
    (void)state;
    memset(text_of_new, 'n', LONG);
    kiln_fault_disarm();
    kiln_fault_short_writes(0);
    unlink("file");
    unlink("file.part");
    kiln_test_write("file", "old");
    return 0;
}

/* What the file says: 'o', 'n', or '?' for neither as a whole. */
static char said(const char *path)
{
    static char text[LONG + 2];
    FILE *file = fopen(path, "re");
    if (!file)
        return '?';
    text[fread(text, 1, LONG + 1, file)] = '\0';
    fclose(file);
    return strcmp(text, "old") == 0 ? 'o' : strcmp(text, text_of_new) == 0 ? 'n' : '?';
}

static void whatever_fails_the_file_is_whole(void **state)
{
    (void)state;
    static const struct {
        int number, code;
    } reasons[] = {{EIO, KILN_IO}, {ENOSPC, KILN_FULL}, {EDQUOT, KILN_FULL}};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        int failed = 0;
        bool fired = true;
        for (int n = 1; fired; n++) {
            kiln_test_write("file", "old");
            kiln_fault_arm_call(KILN_FAULT_FILE, NULL, reasons[i].number, n, false);
            const int code = kiln_replace("file", text_of_new, 0600, &err);
            fired = kiln_fault_disarm();
            assert_int_equal(access("file.part", F_OK), -1);
            assert_int_not_equal(said("file"), '?');
            if (code == 0) { /* to close the folder may fail: by then all is on disk */
                assert_int_equal(said("file"), 'n');
                continue;
            }
            assert_int_equal(code, reasons[i].code);
            assert_non_null(strstr(err.text, "write file: "));
            failed++;
        }
        assert_int_equal(failed, 7); /* open, openat, write, fsync, close, renameat, fsync */
        assert_int_equal(said("file"), 'n');
    }
}

/* Before the name is changed the old file is there, whatever cannot be done. */
static void until_it_is_renamed_the_old_one_stays(void **state)
{
    (void)state;
    static const char *const calls[] = {"open", "openat", "write", "fsync", "close", "renameat"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        kiln_fault_arm_call(KILN_FAULT_FILE, calls[i], EIO, 1, true);
        assert_int_equal(kiln_replace("file", text_of_new, 0600, &err), KILN_IO);
        assert_true(kiln_fault_disarm());
        assert_int_equal(said("file"), 'o');
        assert_int_equal(access("file.part", F_OK), -1);
    }
}

static void what_is_interrupted_goes_on(void **state)
{
    (void)state;
    static const char *const calls[] = {"write", "fsync", "close"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int n = 1; n <= 2; n++) {
            kiln_test_write("file", "old");
            kiln_fault_arm_call(KILN_FAULT_FILE, calls[i], EINTR, n, false);
            assert_int_equal(kiln_replace("file", text_of_new, 0600, &err), 0);
            (void)kiln_fault_disarm();
            assert_int_equal(said("file"), 'n');
        }
}

static void a_short_write_goes_on(void **state)
{
    (void)state;
    kiln_fault_short_writes(777);
    assert_int_equal(kiln_replace("file", text_of_new, 0600, &err), 0);
    assert_int_equal(said("file"), 'n');
    kiln_fault_short_writes(777);
    kiln_test_write("file", "old");
    kiln_fault_arm_call(KILN_FAULT_FILE, "write", ENOSPC, 50, true); /* full in the middle */
    assert_int_equal(kiln_replace("file", text_of_new, 0600, &err), KILN_FULL);
    assert_true(kiln_fault_disarm());
    assert_int_equal(said("file"), 'o');
}

/* A rename that only the memory has is gone after a power cut. */
static void the_folder_is_on_disk_too(void **state)
{
    (void)state;
    struct kiln_part part;
    int before = kiln_fault_synced_folders();
    assert_int_equal(kiln_replace("file", text_of_new, 0600, &err), 0);
    assert_int_equal(kiln_fault_synced_folders(), before + 1);
    assert_int_equal(kiln_replace("./file", text_of_new, 0600, &err), 0);
    assert_int_equal(kiln_fault_synced_folders(), before + 2);
    assert_int_equal(kiln_part_open_below(&part, ".", "folder/file", 0600, &err), 0);
    assert_int_equal(kiln_part_write(&part, "old", 3, &err), 0);
    assert_int_equal(kiln_part_keep(&part, true, &err), 0);
    assert_int_equal(kiln_fault_synced_folders(), before + 3);
    assert_int_equal(said("folder/file"), 'o');
    assert_int_equal(kiln_part_open(&part, "file", 0600, &err), 0);
    assert_int_equal(kiln_part_keep(&part, false, &err), 0); /* a picture can be fetched again */
    assert_int_equal(kiln_fault_synced_folders(), before + 3);
}

/* Links and files that somebody has put in the way lead nowhere. */
static void what_was_planted_is_not_followed(void **state)
{
    (void)state;
    struct stat st;
    kiln_test_write("victim", "old");
    unlink("file");
    assert_int_equal(symlink("victim", "file"), 0);
    assert_int_equal(symlink("victim", "file.part"), 0);
    assert_int_equal(kiln_replace("file", text_of_new, 0600, &err), 0);
    assert_int_equal(said("victim"), 'o');
    assert_int_equal(lstat("file", &st), 0);
    assert_true(S_ISREG(st.st_mode) && (st.st_mode & 0777) == 0600);
    assert_int_equal(mkdir("file.part", 0700), 0);
    assert_int_equal(kiln_replace("file", "old", 0600, &err), KILN_DENIED);
    assert_non_null(strstr(err.text, "file.part is there and cannot be removed"));
    assert_int_equal(said("file"), 'n');
    rmdir("file.part");
}

/* Neither the name nor a part beside it is touched, wherever it leads. */
static void names_of_the_system_are_not_replaced(void **state)
{
    (void)state;
    static const char *const names[] = {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/null"};
    struct stat before, after;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct kiln_part part;
        assert_int_equal(lstat(names[i], &before), 0);
        assert_int_equal(kiln_part_open(&part, names[i], 0600, &err), KILN_EXISTS);
        kiln_part_drop(&part);
        assert_int_equal(kiln_replace(names[i], "x", 0600, &err), KILN_EXISTS);
        assert_non_null(strstr(err.text, names[i]));
        assert_int_equal(lstat(names[i], &after), 0);
        assert_true(before.st_mode == after.st_mode);
    }
    assert_int_equal(kiln_replace_named("/dev/null", "x", 1, 0600, &err), 0);
    assert_int_equal(stat("/dev/null", &after), 0);
    assert_true(S_ISCHR(after.st_mode));
    assert_int_equal(kiln_replace_named("file", text_of_new, LONG, 0600, &err), 0);
    assert_int_equal(said("file"), 'n');
}

/* Dropped, and dropped again: nothing of it is left. */
static void a_part_that_is_dropped_leaves_nothing(void **state)
{
    (void)state;
    struct kiln_part part;
    assert_int_equal(kiln_part_open(&part, "file", 0600, &err), 0);
    assert_int_equal(kiln_part_write(&part, "half", 4, &err), 0);
    assert_int_equal(access("file.part", F_OK), 0);
    kiln_part_drop(&part);
    kiln_part_drop(&part);
    assert_int_equal(access("file.part", F_OK), -1);
    assert_int_equal(said("file"), 'o');
    assert_int_not_equal(kiln_part_open(&part, "nowhere/file", 0600, &err), 0);
    kiln_part_drop(&part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(whatever_fails_the_file_is_whole, set_up),
        cmocka_unit_test_setup(until_it_is_renamed_the_old_one_stays, set_up),
        cmocka_unit_test_setup(what_is_interrupted_goes_on, set_up),
        cmocka_unit_test_setup(a_short_write_goes_on, set_up),
        cmocka_unit_test_setup(the_folder_is_on_disk_too, set_up),
        cmocka_unit_test_setup(what_was_planted_is_not_followed, set_up),
        cmocka_unit_test_setup(names_of_the_system_are_not_replaced, set_up),
        cmocka_unit_test_setup(a_part_that_is_dropped_leaves_nothing, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
