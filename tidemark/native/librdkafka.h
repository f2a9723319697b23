/* The part of librdkafka's public interface that this library calls.

   The Python client brings librdkafka without its headers, so the declarations are here.  They are
   part of its stable binary interface.  Python looks the functions up in the loaded client and
   hands their addresses over (tidemark/runtime/messages/librdkafka.py). */

#ifndef TIDEMARK_LIBRDKAFKA_H
#define TIDEMARK_LIBRDKAFKA_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  int32_t error;
  void *topic;
  int32_t partition;
  void *value; /* NULL: a tombstone */
  size_t value_bytes;
  void *key; /* NULL: no key */
  size_t key_bytes;
  int64_t offset;
  void *private;
} Message;

typedef struct {
  int64_t (*consume_batch_queue)(void *queue, int timeout_ms, Message **messages, size_t count);
  void (*message_destroy)(Message *message);
  int64_t (*message_timestamp)(const Message *message, int32_t *type);
  int32_t (*message_headers)(const Message *message, void **headers);
  int32_t (*header_get_all)(const void *headers, size_t index, const char **name,
                            const void **value, size_t *value_bytes);
  int (*produce_batch)(void *topic, int32_t partition, int flags, Message *messages, int count);
} Librdkafka;

/* Bytes of many records as an Arrow column: of record i, those from offsets[i] to offsets[i + 1].
   `valid`: a bit for each record, NULL if no record is null.  `first`: the record at which a slice
   of the column begins. */
typedef struct {
  uint8_t *data;
  int64_t *offsets;
  uint8_t *valid;
  int64_t first;
} Bytes;

#endif
