/* Rows of columns as JSON texts, one after another in one buffer (see json_rows.py).

   A text is made of pieces that are the same in all rows, with a column's value between two of
   them.  Escapes are those of polars' json_encode: \b, \t, \n, \f, \r, \", \\, and \u00xx for other
   control characters.  */

#include <stdint.h>
#include <string.h>

/* NUMBER: values are int64_t.  TEXT: values are views of UTF-8, to be quoted and escaped.  READY:
   values are views of JSON.  */
enum kind { NUMBER, TEXT, READY };

/* `valid`: a bit for each row, from bit `first` on; NULL if no value is null.  `data`: what the
   views refer to.  */
struct column {
    int64_t kind;
    const void *values;
    const uint8_t *valid;
    int64_t first;
    const uint8_t *const *data;
};

/* Arrow's view of a text: up to 12 bytes are in the view itself.  */
struct view {
    int32_t length;
    union {
        uint8_t own[12];
        struct {
            uint8_t prefix[4];
            int32_t buffer;
            int32_t offset;
        } other;
    };
};

#define LONGEST_NUMBER 20
#define LONGEST_ESCAPE 6
#define BLOCK 16

static uint8_t *put(uint8_t *to, const void *from, size_t length) {
    memcpy(to, from, length);
    return to + length;
}

/* Copy in whole blocks: up to BLOCK - 1 bytes after both texts are touched.  */
static uint8_t *put_piece(uint8_t *to, const uint8_t *from, int64_t length) {
    for (int64_t at = 0; at < length; at += BLOCK) memcpy(to + at, from + at, BLOCK);
    return to + length;
}

static int digits_of(uint64_t value) {
    int digits = 1;
    for (; value >= 10000; value /= 10000) digits += 4;
    return digits + (value >= 10) + (value >= 100) + (value >= 1000);
}

static uint8_t *put_number(uint8_t *to, int64_t value) {
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    if (value < 0) *to++ = '-';
    uint8_t *end = to + digits_of(rest), *at = end;
    for (; rest >= 100; rest /= 100) memcpy(at -= 2, pairs + rest % 100 * 2, 2);
    if (rest >= 10) memcpy(at - 2, pairs + rest * 2, 2);
    else at[-1] = (uint8_t)('0' + rest);
    return end;
}

/* The high bit of each byte that is below `least`, at most 0x80.  A byte above one that is below
   may be marked, too.  */
static uint64_t below(uint64_t bytes, uint64_t least) {
    const uint64_t ones = UINT64_C(0x0101010101010101), high = UINT64_C(0x8080808080808080);
    return (bytes - ones * least) & ~bytes & high;
}

static int are_plain(const uint8_t *block) {
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t escaped = 0;
    for (int at = 0; at < BLOCK; at += 8) {
        uint64_t eight;
        memcpy(&eight, block + at, sizeof eight);
        escaped |= below(eight, 0x20) | below(eight ^ ones * '"', 1) | below(eight ^ ones * '\\', 1);
    }
    return !escaped;
}

static uint8_t *put_byte(uint8_t *to, uint8_t byte) {
    static const char hex[] = "0123456789abcdef", from[] = "\b\t\n\f\r\"\\", as[] = "btnfr\"\\";
    if (byte >= 0x20 && byte != '"' && byte != '\\') {
        *to++ = byte;
        return to;
    }
    const char *found = byte ? strchr(from, byte) : NULL;
    *to++ = '\\';
    if (found) {
        *to++ = (uint8_t)as[found - from];
        return to;
    }
    to = put(to, "u00", 3);
    *to++ = (uint8_t)hex[byte >> 4];
    *to++ = (uint8_t)hex[byte & 15];
    return to;
}

static uint8_t *put_text(uint8_t *to, const uint8_t *from, int32_t length) {
    const uint8_t *end = from + length;
    *to++ = '"';
    while (end - from >= BLOCK) {
        const uint8_t *next = from + BLOCK;
        if (are_plain(from)) {
            to = put(to, from, BLOCK);
            from = next;
        }
        while (from < next) to = put_byte(to, *from++);
    }
    while (from < end) to = put_byte(to, *from++);
    *to++ = '"';
    return to;
}

static int64_t most_bytes(const struct column *column, int64_t row) {
    if (column->kind == NUMBER) return LONGEST_NUMBER;
    int64_t length = ((const struct view *)column->values)[row].length;
    return column->kind == TEXT ? LONGEST_ESCAPE * length + 4 : length + 4;
}

static uint8_t *put_value(uint8_t *to, const struct column *column, int64_t row) {
    int64_t bit = column->first + row;
    if (column->valid && !(column->valid[bit >> 3] >> (bit & 7) & 1)) return put(to, "null", 4);
    if (column->kind == NUMBER) return put_number(to, ((const int64_t *)column->values)[row]);
    const struct view *view = (const struct view *)column->values + row;
    const uint8_t *bytes = view->length <= (int32_t)sizeof view->own
                               ? view->own
                               : column->data[view->other.buffer] + view->other.offset;
    if (column->kind == TEXT) return put_text(to, bytes, view->length);
    return put(to, bytes, (size_t)view->length);
}

/* Write the texts of rows from `begin` on while `room` bytes surely hold the next; return the
   number of the first row that is not written.

   pieces: count + 1 of them, one after another, then BLOCK bytes; ends: where each ends.
   out: texts.  offsets: where texts begin and end in `out`; offsets[begin] is given.  */
int64_t tidemark_json_rows(int64_t rows, int64_t begin, int64_t count,
                           const struct column *columns, const uint8_t *pieces,
                           const int64_t *ends, uint8_t *out, int64_t room, int64_t *offsets) {
    for (int64_t row = begin; row < rows; row++) {
        int64_t most = ends[count] + BLOCK;
        for (int64_t at = 0; at < count; at++) most += most_bytes(&columns[at], row);
        if (room - offsets[row] < most) return row;
        uint8_t *to = put_piece(out + offsets[row], pieces, ends[0]);
        for (int64_t at = 0; at < count; at++) {
            to = put_value(to, &columns[at], row);
            to = put_piece(to, pieces + ends[at], ends[at + 1] - ends[at]);
        }
        offsets[row + 1] = to - out;
    }
    return rows;
}
