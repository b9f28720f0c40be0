/* windows.h - the index of words, asked for the newest part of its pictures first.
 *
 * GIN finds all pictures with a word, in no order, and each costs a look into the table.  So each
 * picture also has a lexeme for its part of the jobs (KILN_LEXEME_PART), and a search asks for the
 * words in a window of a few parts at a time:
 *
 *     tsv @@ '''j:60'' | ''j:59''' AND tsv @@ '''star'''
 *
 * These are two conditions because GIN takes turns between conditions, and skips in the lists of
 * one to where those of the other are.  Within one condition it reads the whole list of the rarest
 * word.
 *
 * The first window is as wide as the frequency of the rarest word says, or has all pictures where
 * that is cheaper; the next ones are as wide as the hits so far and the time that is left say.
 *
 * Words that are seldom together need many windows, and each part costs GIN 0.2 ms, or 1 ms for
 * frequent words.  All lists of such words from end to end cost it less than a few windows
 * (RESULTS.md), so once the hits so far say that few are left, the rest of the jobs is one window,
 * if the caller allows it.  Its statement must end after some number of hits, for a page
 * KILN_PARTS_WHOLE_HITS: there may be more of them after all.  What it then has is any part of
 * them.
 *
 * The last word that somebody types is the beginning of a word (`'red':*`).  GIN reads the lists of
 * all words with it, for each window: 35 ms where 300,000 pictures have such a word.  If more than
 * 20,000 have it and another word is much rarer, or 75,000 have it beside any other word, GIN is
 * asked without the beginning, and each picture found is compared with the whole query.  Beginnings
 * of rare words stay.
 */
#ifndef KILN_GALLERY_WINDOWS_H
#define KILN_GALLERY_WINDOWS_H

#include "storage/ledger/gallery/question.h"

#define KILN_PART_BITS 14 /* a part has the jobs whose ids differ in their last bits alone */
#define KILN_PARTS_WHOLE_HITS 1000

/* What the index knows before it is searched. */
struct kiln_gallery_index {
    bool complete;        /* it has all pictures */
    uint32_t words;       /* words and values that must be there; only with some it helps */
    bool phrase;          /* whose hits are not known before each of its pictures is looked at */
    char frequent[512];   /* beginnings it is asked without; "": pictures need no comparing */
    uint64_t pictures;    /* of all pools, about */
    uint64_t rarest;      /* pictures with the rarest of these, about; 0: not known, likely few */
    uint64_t first, last; /* jobs */
};
int kiln_gallery_look(struct kiln_ledger *session, const struct kiln_gallery_question *question,
                      struct kiln_gallery_index *ret, struct kiln_error *err) KILN_MUST_CHECK;

/* What each picture of a window is compared with: all lexemes; NULL: with nothing. */
const char *kiln_gallery_compared(const struct kiln_gallery_question *question,
                                  const struct kiln_gallery_index *index);

struct kiln_parts { /* a window, and what is left behind it */
    bool newer;
    uint64_t at, farthest; /* jobs behind `at` are left, up to this one */
    uint64_t parts;        /* of the window */
    bool whole;            /* all that is left, and so without the lexemes of its parts */
    bool may_be_whole;     /* kiln_parts_allow_whole */
    const char *frequent;  /* of the index, borrowed */
    int64_t begun_ms;
};
/* wanted: hits.  False: there are no jobs to search. */
bool kiln_parts_begin(struct kiln_parts *window, const struct kiln_gallery_index *index, bool newer,
                      uint64_t at, uint64_t farthest, uint32_t wanted);
/* From now on the rest may be one window, if it is cheap for these words. */
void kiln_parts_allow_whole(struct kiln_parts *window, const struct kiln_gallery_index *index);
/* A whole window had KILN_PARTS_WHOLE_HITS or more: its jobs are searched in narrow ones. */
void kiln_parts_narrow(struct kiln_parts *window);
/* The lexemes without frequent beginnings, and those of the parts of the window; NULL: of all that
 * is left.  malloc'd. */
int kiln_parts_lexemes(struct kiln_parts *window, const char *lexemes, char **ret, char **ret_parts,
                       struct kiln_error *err) KILN_MUST_CHECK;
/* The condition of the parts, which are the nth parameter. */
#define KILN_PARTS_SQL(nth) "tsv @@ $" #nth "::tsquery AND "
/* The window after one that had so many of the hits that are still wanted; false: there is none. */
bool kiln_parts_next(struct kiln_parts *window, uint32_t had, uint32_t wanted, int64_t deadline);
/* The same, but after a window without hits the next one begins at a picture.  Any number of jobs
 * may have none, and their windows take no time, so that the first one behind them would be far too
 * wide. */
int kiln_parts_go_on(struct kiln_parts *window, struct kiln_ledger *session, uint32_t had,
                     uint32_t wanted, int64_t deadline, bool *ret_more,
                     struct kiln_error *err) KILN_MUST_CHECK;

#endif
