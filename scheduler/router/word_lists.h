/* word_lists.h - the short lists of words that the router knows by heart. */
#ifndef KILN_ROUTER_WORD_LISTS_H
#define KILN_ROUTER_WORD_LISTS_H

#include <stdint.h>

enum kiln_word_class {
    KILN_WORD_SMALL = 1,      /* a, the, of: carry nothing */
    KILN_WORD_PRAISE = 2,     /* masterpiece, detailed, style: in every prompt, of every LoRA */
    KILN_WORD_LOOK = 4,       /* behind a phrase: it is a look ("clay style") */
    KILN_WORD_THING = 8,      /* behind a phrase: it is a thing ("clay pot") */
    KILN_WORD_CONTAINER = 16, /* "a box of crayons": in front of "of": a thing too */
    KILN_WORD_PLACE = 32,     /* behind a word: the word is a thing ("the clay on the table") */
    KILN_WORD_ENGLISH = 64,   /* a rare word that is no misspelling of a look's */
    KILN_WORD_MAKING = 128,   /* "drawn with", "made from": what follows is a look */
    KILN_WORD_ASKING = 256,   /* "please make it all": carries nothing beside a look */
    KILN_WORD_TRADING = 512,  /* in front of a word: it is a thing ("a shop that sells stickers") */
    KILN_WORD_MATERIAL = 1024, /* in front of a figure: a look ("a clay fox") */
    KILN_WORD_FIGURE = 2048,
    KILN_WORD_TINT = 4096,    /* a color or size, between the two: "a clay purple heart" */
    KILN_WORD_FIXTURE = 8192, /* "with a neon sign in its window": a thing of the scene */
    KILN_WORD_DEVICE = 16384, /* behind a name: a thing of that name ("a Nintendo console") */
    KILN_WORD_PERSON = 32768, /* who does what follows ("a child playing with clay") */
    KILN_WORD_WORKING = 65536,
    KILN_WORD_OWNABLE = 131072,  /* "a banana with a small sticker": a thing of something */
    KILN_WORD_LIKENING = 262144, /* may begin to say what it shall be like (look.c) */
    KILN_WORD_BESIDE = 524288,   /* puts another thing into the scene */
    KILN_WORD_MOOD = 1048576,    /* "old Famicom days": behind what it shall be like */
    KILN_WORD_ORDER = 2097152    /* orders a picture: "draw" */
};

/* Words that can introduce a comparison, by what else must stand there.  look.c compares their
 * spelling; the class of a word only says that this is worth doing. */
#define KILN_LIKENS_ALONE                                                                          \
    "like think reminiscent evoking resembling mimicking imitating emulating channeling straight " \
    "homage tribute reminding remind recalling copying approximating echoing style"
#define KILN_LIKENS_IN_FRONT /* "as a sticker", "medium clay" */                                   \
    "as like la via look looking style medium technique aesthetic imitating mimicking resembling " \
    "emulating evoking channeling think"
#define KILN_LIKENS_IF_FROM /* "torn from" */                                                      \
    "torn ripped lifted taken cut clipped scanned copied fresh belongs belong pulled stolen "      \
    "borrowed screenshot"
#define KILN_LIKENS_IF_SEEN /* "you would find" */                                                 \
    "see find get buy spot stick slap peel found play come hang collect put meet expect print "    \
    "draw make"

struct kiln_word_list {
    enum kiln_word_class class;
    const char *words; /* separated by spaces */
};
extern const struct kiln_word_list kiln_word_lists[]; /* ended by words NULL */

/* A character of traditional Chinese as simplified; all others as they are. */
uint32_t kiln_word_simplified(uint32_t code);

/* British spelling and the American one, as parts of words of a to z. [0] are those that begin with
 * a, and so on; a letter has at most three, ended by "". */
extern const char kiln_word_spellings[26][4][2][12];

#endif
