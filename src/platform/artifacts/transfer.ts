// Transfer of files to and from the store, whole or not at all. A row is written before the first byte and deleted
// after the last one. Leftovers of a crash are thus known and can be removed.
import type { Readable } from 'node:stream'
import type { Log } from '../../process/log.ts'
import { isDuplicate, isUnavailable } from '../../database/database-failure.ts'
import type { Database, Queryable } from '../../database/database.ts'
import { arrivingBytes, type Expected } from '../http/arriving-bytes.ts'
import { ApiError, UNREAD } from '../http/errors.ts'
import {
  type ArtifactFacts,
  type ArtifactStore,
  ArtifactStoreError,
  type ByteRange,
} from './store.ts'

export interface FileParts {
  database: Database
  store: ArtifactStore
  log: Pick<Log, 'warn'>
}

/** A kind of files: its name in messages, and the statement that deletes rows whose bytes are removed. */
export interface FileKind {
  name: string
  forget: (connection: Queryable, ids: string[]) => Promise<void>
}

/** A row of a file, and its key in the store. */
export interface StoredFile {
  id: string
  storedAs: string
}

/** The bytes of a file on its way, and what they have to be. */
export interface Arriving {
  body: ReadableStream<Uint8Array> | null
  expected: Expected
  facts: ArtifactFacts
}

/** Throws 400 where the store needs a length that did not come. */
export function requireLength({ needsLength }: ArtifactStore, { bytes }: ArtifactFacts): void {
  if (!needsLength || bytes !== undefined) return
  throw new ApiError(400, 'This platform needs a Content-Length', UNREAD)
}

/** Reads a file that is here already to its end, so that the sender receives the answer; returns its size. */
export async function readThrough({ body, expected }: Omit<Arriving, 'facts'>): Promise<number> {
  let bytes = 0
  for await (const chunk of arrivingBytes(body, expected)) bytes += chunk.byteLength
  return bytes
}

/**
 * Stores a file whose row is written, and returns its size; undefined when the same one was faster. `settle` makes
 * it visible: false when it was given up meanwhile.
 */
export async function storeFile(
  parts: FileParts,
  kind: FileKind,
  file: StoredFile & Arriving & { settle: (bytes: number) => Promise<boolean> },
): Promise<number | undefined> {
  let bytes = 0
  try {
    const checked = arrivingBytes(file.body, file.expected, (count) => (bytes = count))
    await parts.store.put(file.storedAs, checked, file.facts)
    if (!(await file.settle(bytes))) throw new ApiError(408, 'The upload took too long')
    return bytes
  } catch (error) {
    // When the database was lost, it is unknown whether the file is visible: it stays, and if it is not
    // visible, retention removes it.
    if (!isUnavailable(error)) await removeFile(parts, kind, file)
    if (isDuplicate(error)) return undefined
    if (!(error instanceof ArtifactStoreError)) throw error
    parts.log.warn({ err: error }, `the ${kind.name} could not be stored`)
    throw storeUnavailable(kind, UNREAD.headers)
  }
}

/** Opens a file; undefined where the store has none. Throws 503 when the store fails. */
export function openFile(
  store: ArtifactStore,
  kind: FileKind,
  { storedAs }: Pick<StoredFile, 'storedAs'>,
  range?: ByteRange,
): Promise<Readable | undefined> {
  return store.get(storedAs, range).catch((error: unknown) => {
    throw error instanceof ArtifactStoreError ? storeUnavailable(kind) : error
  })
}

function storeUnavailable({ name }: FileKind, more: Record<string, string> = {}): ApiError {
  const headers = { ...more, 'Retry-After': '10' }
  return new ApiError(503, `The store of ${name}s is not available at the moment`, { headers })
}

/** Removes a file, which `hide` makes invisible first; if that fails, retention does it later. Never rejects. */
export async function removeFile(
  { database, store, log }: FileParts,
  kind: FileKind,
  { id, storedAs }: StoredFile,
  hide?: (connection: Queryable, id: string) => Promise<void>,
): Promise<void> {
  try {
    await hide?.(database, id)
    await store.remove(storedAs)
    await kind.forget(database, [id])
  } catch (error) {
    log.warn({ err: error }, `remains of the ${kind.name} are removed later`)
  }
}

/** How often retention looks, and for how long. */
export const RETENTION = { everyMs: 600_000, timeoutMs: 600_000 } as const
/** Age of an upload that never ended: longer than the maximum duration of one. */
export const ARRIVING_MS_MAX = 2 * 3_600_000
const STALE_AT_ONCE = 500

/**
 * Removes all files that `stale` finds, which returns at most `rowsMax` of them. A file that cannot be removed does
 * not stop the others; it is tried again at the next run. Then the returned promise rejects at the end.
 */
export async function removeStale(
  { database, store }: Pick<FileParts, 'database' | 'store'>,
  { name, forget }: FileKind,
  stale: (rowsMax: number) => Promise<StoredFile[]>,
  signal: AbortSignal,
): Promise<void> {
  const failures = new Map<string, unknown>()
  let removed: string[]
  let found: number
  do {
    const files = await stale(STALE_AT_ONCE)
    found = files.length
    removed = []
    for (const { id, storedAs } of files) {
      if (signal.aborted) break
      if (failures.has(id)) continue
      try {
        // Empty where a file was refused.
        if (storedAs !== '') await store.remove(storedAs)
        removed.push(id)
      } catch (error) {
        failures.set(id, error)
      }
    }
    // Bytes first: a row without them is tried again, bytes without a row would stay for ever.
    await forget(database, removed)
    signal.throwIfAborted()
  } while (found === STALE_AT_ONCE && removed.length > 0)
  const [cause] = failures.values()
  if (cause !== undefined) {
    throw new Error(`files could not be removed (${name}): ${failures.size}`, { cause })
  }
}

/**
 * Limits concurrency by 503 with `headers`, by default those of an upload. The function that a turn returns is called
 * once, at its end.
 */
export function createTurns(
  max: number,
  message: string,
  headers: Record<string, string> = UNREAD.headers,
): () => () => void {
  let acquired = 0
  return () => {
    if (acquired >= max) {
      throw new ApiError(503, message, { headers: { ...headers, 'Retry-After': '5' } })
    }
    acquired++
    return () => void acquired--
  }
}
