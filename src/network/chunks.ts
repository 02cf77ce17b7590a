// Lists of the chunks that a stream has given.

/** Shorter chunks are joined: a buffer takes some hundred bytes of memory, however few it holds. */
const CHUNK_BYTES_MIN = 4096

/**
 * Adds a chunk to the end of a list. Short ones are joined with those before that are no longer, so that few are left
 * and a byte is copied a dozen times at most.
 */
export function addChunk(chunks: Buffer[], chunk: Buffer): void {
  let last = chunk
  for (;;) {
    const before = chunks.at(-1)
    if (before === undefined || before.length > last.length || last.length >= CHUNK_BYTES_MIN) break
    chunks.pop()
    last = Buffer.concat([before, last])
  }
  chunks.push(last)
}
