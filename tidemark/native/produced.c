/* Puts columns of keys and values into the queue of a producer, without an object each. */

#include "librdkafka.h"

enum { CHUNK = 512, COPY = 2 };

static int is_valid(const Bytes *column, int64_t i) {
  return !column->valid || column->valid[i / 8] >> i % 8 & 1;
}

/* An empty value is no tombstone: its address must not be NULL. */
static void *address(const Bytes *column, int64_t i) {
  static char nothing;
  return column->data ? (void *)(column->data + column->offsets[i]) : &nothing;
}

static size_t size(const Bytes *column, int64_t i) {
  return (size_t)(column->offsets[i + 1] - column->offsets[i]);
}

/* Returns the number of records that are in the queue: all from `begin` on, or those before the
   first that the client has refused; `error` says why. */
int64_t tidemark_produce(const Librdkafka *client, void *topic, int32_t partition,
                         const Bytes *keys, const Bytes *values, int64_t begin, int64_t end,
                         int32_t *error) {
  Message messages[CHUNK];
  *error = 0;
  for (int64_t at = begin; at < end; at += CHUNK) {
    int count = (int)(end - at < CHUNK ? end - at : CHUNK);
    for (int n = 0; n < count; n++) {
      Message *message = &messages[n];
      *message = (Message){.partition = partition};
      int64_t value = values->first + at + n, key = keys->first + at + n;
      if (is_valid(values, value)) {
        message->value = address(values, value);
        message->value_bytes = size(values, value);
      }
      if (is_valid(keys, key)) {
        message->key = address(keys, key);
        message->key_bytes = size(keys, key);
      }
    }
    if (client->produce_batch(topic, partition, COPY, messages, count) == count) continue;
    for (int n = 0; n < count; n++) {
      if (!messages[n].error) continue;
      *error = messages[n].error;
      return at + n - begin;
    }
  }
  return end - begin;
}
