/* news.c - see news.h. */
#include "scheduler/cache/news.h"

#include <stdatomic.h>
#include <stdlib.h>

#define PLACES (1u << 20)
#define BITS 64 /* of what a prompt says */

struct kiln_donor_news {
    atomic_uint_fast64_t turn, all; /* all: looks before this turn are outdated */
    atomic_uint_fast64_t at[PLACES];
};

struct kiln_donor_news *kiln_donor_news_new(void)
{
    struct kiln_donor_news *news = calloc(1, sizeof *news); /* zero pages until they are used */
    if (news)
        kiln_donor_news_all(news); /* turn 0 is before everything */
    return news;
}

void kiln_donor_news_free(struct kiln_donor_news *news)
{
    free(news);
}

static uint32_t place_of(const struct kiln_reuse_marks *marks, int i)
{
    return (marks->at[i] ^ (uint32_t)i * 0x9e3779b9u) & (PLACES - 1);
}

/* The mark of those prompts of a subject that say this; BITS: of all of them. */
static uint32_t mark_under(uint32_t subject, int bit)
{
    const uint32_t mark = subject ^ (uint32_t)bit * 0x85ebca6bu;
    return mark ? mark : 1; /* 0 is none */
}

uint64_t kiln_donor_news_turn(const struct kiln_donor_news *news)
{
    return atomic_load(&news->turn);
}

void kiln_donor_news_add(struct kiln_donor_news *news, const struct kiln_reuse_marks *marks,
                         uint64_t said)
{
    const uint64_t turn = atomic_load(&news->turn) + 1;
    for (int i = 0; i < KILN_REUSE_SUBJECT; i++)
        if (marks->at[i])
            atomic_store(&news->at[place_of(marks, i)], turn);
    struct kiln_reuse_marks under = {0};
    for (int bit = 0; bit <= BITS && marks->at[KILN_REUSE_SUBJECT]; bit++)
        if (bit == BITS || said >> bit & 1) {
            under.at[KILN_REUSE_SUBJECT] = mark_under(marks->at[KILN_REUSE_SUBJECT], bit);
            atomic_store(&news->at[place_of(&under, KILN_REUSE_SUBJECT)], turn);
        }
    atomic_store(&news->turn, turn); /* last: whoever sees it sees the places */
}

void kiln_donor_news_narrow(const struct kiln_donor_news *news, uint64_t said,
                            struct kiln_reuse_marks *marks)
{
    const uint32_t subject = marks->at[KILN_REUSE_SUBJECT];
    struct kiln_reuse_marks under = *marks;
    uint64_t oldest = UINT64_MAX;
    for (int bit = 0; bit <= BITS && subject; bit++) {
        if (bit < BITS ? !(said >> bit & 1) : said != 0)
            continue;
        under.at[KILN_REUSE_SUBJECT] = mark_under(subject, bit);
        const uint64_t turn = atomic_load(&news->at[place_of(&under, KILN_REUSE_SUBJECT)]);
        if (turn < oldest) {
            oldest = turn;
            *marks = under;
        }
    }
}

void kiln_donor_news_all(struct kiln_donor_news *news)
{
    const uint64_t turn = atomic_load(&news->turn) + 1;
    atomic_store(&news->all, turn);
    atomic_store(&news->turn, turn);
}

bool kiln_donor_news_since(const struct kiln_donor_news *news, const struct kiln_reuse_look *look)
{
    bool since = look->turn < atomic_load(&news->all);
    for (int i = 0; i < KILN_REUSE_MARKS && !since; i++)
        since = look->marks.at[i] && atomic_load(&news->at[place_of(&look->marks, i)]) > look->turn;
    return since;
}

bool kiln_donor_news_ever(const struct kiln_donor_news *news, const struct kiln_reuse_marks *marks)
{
    for (int i = 0; i < KILN_REUSE_MARKS; i++)
        if (marks->at[i] && atomic_load(&news->at[place_of(marks, i)]))
            return true;
    return false;
}
