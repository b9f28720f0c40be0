/* pieces.h - the pieces of a vocabulary, sorted by their bytes, to be matched byte by byte.
 *
 * A walk is the range of pieces that begin with the bytes seen so far; a step narrows it.  So both
 * "the longest piece here" and "all pieces that begin here" are one walk over the text:
 *
 *     struct kiln_piece_walk walk = kiln_pieces_start(pieces);
 *     while (at < end && kiln_pieces_step(pieces, &walk, *at++))
 *         if ((id = kiln_pieces_here(pieces, &walk)) >= 0)
 *             ...
 */
#ifndef KILN_EMBED_PIECES_H
#define KILN_EMBED_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KILN_PIECES_MAX (1 << 20)        /* pieces, and the largest id + 1 */
#define KILN_PIECE_BYTES_MAX 4096        /* of one piece */
#define KILN_PIECES_BYTES_MAX (1u << 28) /* of all */

struct kiln_piece {
    const char *at; /* lent during the call */
    size_t len;
    int32_t id;
};

struct kiln_pieces;

/* Copies and sorts the pieces, which are reordered.  Of equal pieces the one with the largest id
 * counts.  NULL: no memory.  count <= KILN_PIECES_MAX, lengths within the bounds above. */
struct kiln_pieces *kiln_pieces_new(struct kiln_piece *pieces, size_t count);
void kiln_pieces_free(struct kiln_pieces *p); /* accepts NULL */

struct kiln_piece_walk {
    uint32_t low, high, depth;
};

struct kiln_piece_walk kiln_pieces_start(const struct kiln_pieces *p);
/* False, and the walk is over: no piece continues with this byte. */
bool kiln_pieces_step(const struct kiln_pieces *p, struct kiln_piece_walk *walk, uint8_t byte);
/* The id of the piece that is exactly what was walked, or -1. */
int32_t kiln_pieces_here(const struct kiln_pieces *p, const struct kiln_piece_walk *walk);
/* The id of a whole piece, or -1. */
int32_t kiln_pieces_find(const struct kiln_pieces *p, const char *at, size_t len);

#endif
