/* intern.c - the texts one behind the other, found through a table of slots.
 *
 * A fresh table of slots gives them out as 0, 1, 2, ..., so that the slot is the number; a full
 * one is replaced by one of twice the size, into which all texts go again in their order.
 */
#include "scheduler/sim/intern.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 64

void kiln_intern_release(struct kiln_intern *table)
{
    kiln_slots_release(&table->slots);
    kiln_text_release(&table->bytes);
    free(table->starts);
    memset(table, 0, sizeof *table);
}

static size_t length_of(const struct kiln_intern *table, uint32_t number)
{
    size_t end = number + 1 < table->count ? table->starts[number + 1] : table->bytes.len;
    return end - table->starts[number] - 1;
}

static bool grow(struct kiln_intern *table)
{
    uint32_t capacity = table->count ? table->count * 2 : FIRST_CAPACITY;
    struct kiln_slots slots;
    size_t *starts = realloc(table->starts, capacity * sizeof *starts);
    if (!starts)
        return false;
    table->starts = starts;
    if (kiln_slots_init(&slots, capacity, NULL))
        return false;
    for (uint32_t i = 0; i < table->count; i++)
        kiln_slots_alloc(&slots,
                         kiln_hash_bytes(0, table->bytes.at + starts[i], length_of(table, i)));
    kiln_slots_release(&table->slots);
    table->slots = slots;
    return true;
}

uint32_t kiln_intern_find(const struct kiln_intern *table, const void *bytes, size_t len)
{
    uint32_t hash = kiln_hash_bytes(0, bytes, len);
    uint32_t number = table->count ? kiln_slots_find(&table->slots, hash) : KILN_NONE;
    while (number != KILN_NONE && (length_of(table, number) != len ||
                                   memcmp(table->bytes.at + table->starts[number], bytes, len)))
        number = kiln_slots_next(&table->slots, number);
    return number;
}

uint32_t kiln_intern(struct kiln_intern *table, const void *bytes, size_t len)
{
    uint32_t number = kiln_intern_find(table, bytes, len);
    if (number != KILN_NONE)
        return number;
    if (table->count == table->slots.capacity && !grow(table))
        return KILN_NONE;
    size_t start = table->bytes.len;
    kiln_text_add(&table->bytes, bytes, len);
    kiln_text_add(&table->bytes, "", 1);
    if (table->bytes.failed)
        return KILN_NONE;
    table->starts[table->count++] = start;
    return kiln_slots_alloc(&table->slots, kiln_hash_bytes(0, bytes, len));
}

const char *kiln_intern_text(const struct kiln_intern *table, uint32_t number)
{
    return table->bytes.at + table->starts[number];
}
