/* Takes messages from a queue of a consumer and copies them to columns, without an object each.

   A read has three steps, so that Python owns all memory that outlives it:
   tidemark_read takes messages and counts what they need, tidemark_copy fills columns of that size,
   tidemark_release gives the messages back. */

#include <stdlib.h>
#include <string.h>

#include "librdkafka.h"

typedef struct {
  const Librdkafka *client;
  void *queue;
  Message **messages; /* the good ones, in order */
  Message **failed;   /* errors in place of messages */
  int64_t room, good, bad;
} Reader;

typedef struct {
  int64_t good, bad, runs, value_bytes, key_bytes;
  int64_t null_values, null_keys, headers, header_bytes;
} Sizes;

typedef struct {
  Bytes values, keys;
  int64_t *offsets;
  int64_t *timestamps;
  int32_t *timestamp_types;
  int64_t *run_begins;
  void **run_topics;
  int32_t *run_partitions;
  int32_t *header_counts; /* of each message, -1 without headers */
  int64_t *header_sizes;  /* of each header: of its name, and of its value, -1 for null */
  uint8_t *header_data;
} Columns;

Reader *tidemark_reader_new(const Librdkafka *client, void *queue) {
  Reader *reader = calloc(1, sizeof *reader);
  if (reader) {
    reader->client = client;
    reader->queue = queue;
  }
  return reader;
}

void tidemark_release(Reader *reader) {
  for (int64_t i = 0; i < reader->good; i++) reader->client->message_destroy(reader->messages[i]);
  for (int64_t i = 0; i < reader->bad; i++) reader->client->message_destroy(reader->failed[i]);
  reader->good = reader->bad = 0;
}

void tidemark_reader_free(Reader *reader) {
  tidemark_release(reader);
  free(reader->messages);
  free(reader->failed);
  free(reader);
}

static int reserve(Reader *reader, int64_t count) {
  if (count <= reader->room) return 0;
  Message **messages = realloc(reader->messages, count * sizeof *messages);
  if (!messages) return -1;
  reader->messages = messages;
  Message **failed = realloc(reader->failed, count * sizeof *failed);
  if (!failed) return -1;
  reader->failed = failed;
  reader->room = count;
  return 0;
}

static int begins_run(Reader *reader, int64_t i) {
  if (i == 0) return 1;
  const Message *before = reader->messages[i - 1], *message = reader->messages[i];
  return before->topic != message->topic || before->partition != message->partition;
}

static void count_headers(Reader *reader, const Message *message, Sizes *sizes) {
  void *headers;
  const char *name;
  const void *value;
  size_t value_bytes;
  if (reader->client->message_headers(message, &headers)) return;
  for (size_t n = 0; !reader->client->header_get_all(headers, n, &name, &value, &value_bytes); n++) {
    sizes->headers++;
    sizes->header_bytes += strlen(name) + (value ? value_bytes : 0);
  }
}

/* Returns 0, or -1 if there is no memory.  Messages of a read before must have been released. */
int tidemark_read(Reader *reader, int timeout_ms, int64_t count, Sizes *sizes) {
  memset(sizes, 0, sizeof *sizes);
  if (reserve(reader, count)) return -1;
  int64_t found =
      reader->client->consume_batch_queue(reader->queue, timeout_ms, reader->messages, count);
  for (int64_t i = 0; i < found; i++) {
    Message *message = reader->messages[i];
    if (message->error)
      reader->failed[reader->bad++] = message;
    else
      reader->messages[reader->good++] = message;
  }
  for (int64_t i = 0; i < reader->good; i++) {
    const Message *message = reader->messages[i];
    sizes->value_bytes += message->value ? (int64_t)message->value_bytes : 0;
    sizes->key_bytes += message->key ? (int64_t)message->key_bytes : 0;
    sizes->null_values += !message->value;
    sizes->null_keys += !message->key;
    sizes->runs += begins_run(reader, i);
    count_headers(reader, message, sizes);
  }
  sizes->good = reader->good;
  sizes->bad = reader->bad;
  return 0;
}

const Message *tidemark_failed(const Reader *reader, int64_t i) { return reader->failed[i]; }

static void append(Bytes *column, int64_t i, const void *bytes, size_t size) {
  int64_t end = column->offsets[i];
  if (bytes) {
    memcpy(column->data + end, bytes, size);
    end += (int64_t)size;
    if (column->valid) column->valid[i / 8] |= (uint8_t)(1 << i % 8);
  }
  column->offsets[i + 1] = end;
}

/* Appends the headers of a message; returns their number, or -1 without headers. */
static int32_t copy_headers(const Librdkafka *client, const Message *message, int64_t **sizes,
                            uint8_t **data) {
  void *headers;
  const char *name;
  const void *value;
  size_t value_bytes;
  int32_t n = 0;
  if (client->message_headers(message, &headers)) return -1;
  for (; !client->header_get_all(headers, n, &name, &value, &value_bytes); n++) {
    size_t name_bytes = strlen(name);
    memcpy(*data, name, name_bytes);
    *data += name_bytes;
    if (value) memcpy(*data, value, value_bytes);
    *data += value ? value_bytes : 0;
    *(*sizes)++ = (int64_t)name_bytes;
    *(*sizes)++ = value ? (int64_t)value_bytes : -1;
  }
  return n;
}

/* Fills columns of the sizes that tidemark_read has returned; bits of `valid` are 0 before. */
void tidemark_copy(const Reader *reader, Columns *columns) {
  int64_t run = 0;
  int64_t *header_sizes = columns->header_sizes;
  uint8_t *header_data = columns->header_data;
  columns->values.offsets[0] = columns->keys.offsets[0] = 0;
  for (int64_t i = 0; i < reader->good; i++) {
    const Message *message = reader->messages[i];
    append(&columns->values, i, message->value, message->value_bytes);
    append(&columns->keys, i, message->key, message->key_bytes);
    columns->offsets[i] = message->offset;
    columns->timestamps[i] =
        reader->client->message_timestamp(message, &columns->timestamp_types[i]);
    if (begins_run((Reader *)reader, i)) {
      columns->run_begins[run] = i;
      columns->run_topics[run] = message->topic;
      columns->run_partitions[run++] = message->partition;
    }
    if (columns->header_counts)
      columns->header_counts[i] =
          copy_headers(reader->client, message, &header_sizes, &header_data);
  }
}
