/* test_load_ring.c - the ring that loads weights, with a device that takes its time: it copies a
 * buffer only when it is waited for, so that a buffer that was read into too early shows.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/weights/load_ring.h"

#define CHUNK ((uint64_t)KILN_RING_CHUNK)
#define FILE_SIZE ((KILN_RING_SLOTS + 3) * CHUNK + 7)
#define PATH "weights.bin"

/* A slow device: one copy a slot may be under way. */
struct device {
    char *buffers[KILN_RING_SLOTS];
    struct {
        bool pending;
        uint64_t at;
        size_t size;
    } copies[KILN_RING_SLOTS];
    char *memory; /* what is being loaded */
    uint64_t sent;
};

static void *buffer(void *ctx, int slot)
{
    return ((struct device *)ctx)->buffers[slot];
}

static void wait_for(void *ctx, int slot)
{
    struct device *d = ctx;
    if (d->copies[slot].pending)
        memcpy(d->memory + d->copies[slot].at, d->buffers[slot], d->copies[slot].size);
    d->copies[slot].pending = false;
}

static void send(void *ctx, int slot, uint64_t at, size_t size)
{
    struct device *d = ctx;
    assert_false(d->copies[slot].pending);
    assert_int_equal(at, d->sent); /* in order */
    d->copies[slot].pending = true;
    d->copies[slot].at = at;
    d->copies[slot].size = size;
    d->sent += size;
}

static struct device device;
static struct kiln_ring *ring;
static char *contents;
static int fd;

static int open_ring(void **state)
{
    (void)state;
    struct kiln_error err;
    const struct kiln_ring_sink sink = {
        .ctx = &device, .buffer = buffer, .send = send, .wait = wait_for};
    for (int i = 0; i < KILN_RING_SLOTS; i++)
        device.buffers[i] = malloc(KILN_RING_CHUNK);
    device.memory = malloc(FILE_SIZE);
    contents = malloc(FILE_SIZE);
    for (uint64_t i = 0, x = 1; i < FILE_SIZE;
         i++, x = x * 6364136223846793005u + 1442695040888963407u)
        contents[i] = (char)(x >> 56);
    fd = open(PATH, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, contents, FILE_SIZE) != (ssize_t)FILE_SIZE)
        return -1;
    return kiln_ring_new(&sink, &ring, &err);
}

static int close_ring(void **state)
{
    (void)state;
    kiln_ring_free(ring);
    for (int i = 0; i < KILN_RING_SLOTS; i++)
        free(device.buffers[i]);
    free(device.memory);
    free(contents);
    return close(fd);
}

/* Loads a part of the file and compares what arrives. */
static void load(uint64_t offset, uint64_t size)
{
    struct kiln_error err;
    memset(device.memory, 0x55, FILE_SIZE);
    device.sent = 0;
    if (kiln_ring_load(ring, fd, offset, size, PATH, &err))
        fail_msg("%s", err.text);
    for (int i = 0; i < KILN_RING_SLOTS; i++)
        wait_for(&device, i);
    assert_int_equal(device.sent, size);
    assert_memory_equal(device.memory, contents + offset, size);
}

static void parts_of_all_sizes_arrive_whole(void **state)
{
    (void)state;
    const uint64_t sizes[] = {1, 4096, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 3, FILE_SIZE - 9};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        load(i, sizes[i]);
    load(FILE_SIZE - 1, 1);
    load(0, FILE_SIZE);
}

static void nothing_is_loaded_at_once(void **state)
{
    (void)state;
    load(0, 0);
}

/* A tensor may follow the one before while the device still copies that. */
static void many_small_parts_follow_each_other(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 3 * KILN_RING_SLOTS; i++)
        load(i * 1000, 1000);
}

static void a_file_that_ends_early_is_named(void **state)
{
    (void)state;
    struct kiln_error err;
    device.sent = 0;
    int code = kiln_ring_load(ring, fd, CHUNK, FILE_SIZE, PATH, &err);
    assert_int_equal(code, KILN_CORRUPT);
    assert_non_null(strstr(err.text, PATH " ends early"));
    for (int i = 0; i < KILN_RING_SLOTS; i++)
        wait_for(&device, i);
    load(3, 2 * CHUNK); /* the ring is as it was */
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
    (void)state;
    struct kiln_error err;
    device.sent = 0;
    assert_int_equal(kiln_ring_load(ring, -1, 0, 9 * CHUNK, "gone.bin", &err), KILN_IO);
    assert_non_null(strstr(err.text, "read gone.bin: "));
    assert_int_equal(device.sent, 0);
    load(0, CHUNK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_of_all_sizes_arrive_whole),
        cmocka_unit_test(nothing_is_loaded_at_once),
        cmocka_unit_test(many_small_parts_follow_each_other),
        cmocka_unit_test(a_file_that_ends_early_is_named),
        cmocka_unit_test(a_file_that_cannot_be_read_is_named),
    };
    return cmocka_run_group_tests_name("load_ring", tests, open_ring, close_ring);
}
