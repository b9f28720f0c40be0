/* sizes.h - the size of a picture in a job line ("1344x768", "16:9", "16:9 xl", "16:9 max"), and
 * the sizes in which each picture is stored.
 *
 * An aspect stands for the model's own resolution of that shape: the lists are those of a model of
 * 1024x1024, and scale with the side of another one.  The listed shape with the nearest
 * ratio is taken if it is within 5 %, so 4:3 and 9:7 are both 1152x896.
 */
#ifndef KILN_SIZES_H
#define KILN_SIZES_H

#include <stddef.h>
#include <stdint.h>

#include "schemas/error.h"

/* Resolves text[0..len).  own: the side of the square that the model was made for, 0 for
 * KILN_SIDE_DEFAULT; the listed shapes are scaled from that to it, to multiples of KILN_SIDE_STEP
 * and KILN_SIDE_MAX at most.  KILN_BAD_INPUT says what it held and what is allowed. */
int kiln_size_parse(const char *text, size_t len, uint32_t own, uint32_t *ret_width,
                    uint32_t *ret_height, struct kiln_error *err) KILN_MUST_CHECK;

/* Checks one side ("width", "height"): range and multiple; names the nearest allowed value. */
int kiln_side_check(const char *name, int64_t side, struct kiln_error *err) KILN_MUST_CHECK;

/* The stored sizes, largest first: the only table of them.  To add one: a name here, a row in
 * sizes.c, and DIFFUSIONZ_SMALLER_MAX of pipeline/diffusionz_batch.h, which limits what the engine
 * makes; and to show it in the gallery, its place in a tile (storage/ledger/gallery/gallery.h). */
enum { KILN_STORED_FULL, KILN_STORED_MEDIUM, KILN_STORED_SMALL, KILN_STORED_SIZES };

struct kiln_stored_size {
    const char *name; /* in `--json`, in object keys, of an export's folder; column object.role */
    uint32_t longest; /* side in pixels; 0: as rendered */
};
extern const struct kiln_stored_size kiln_stored_sizes[KILN_STORED_SIZES];

#define KILN_ROLE_LATENT "latent" /* column object.role of a latent */

#endif
