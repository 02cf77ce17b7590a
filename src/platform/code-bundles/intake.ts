// Intake of code bundles: streams them into the store in bounded memory, whole and under their own hash, or not
// at all.
import { randomUUID } from 'node:crypto'
import { BUNDLE_BOUNDS } from '../../contract/api/code-bundle.ts'
import type { Log } from '../../process/log.ts'
import {
  type BundleAddress,
  findBundle,
  forgetBundles,
  hideBundle,
  noteArrivingBundle,
  settleBundle,
  bundlesAmong,
} from './queries.ts'
import type { Database } from '../../database/database.ts'
import { isDuplicate, isUnavailable } from '../../database/database-failure.ts'
import { arrivingBytes, type Expected } from '../http/arriving-bytes.ts'
import { type ArtifactStore, ArtifactStoreError } from '../artifacts/store.ts'
import { BUNDLE_HEAD } from './head.ts'
import { ApiError, UNREAD, tooLarge } from '../http/errors.ts'

/** What taking bundles needs. */
export interface BundleParts {
  database: Database
  store: ArtifactStore
  log: Pick<Log, 'warn'>
}

/** A bundle on its way. */
export interface BundleUpload extends BundleAddress {
  body: ReadableStream<Uint8Array> | null
  /** Content-Length, where it came. */
  length: string | undefined
}

const CONTENT_TYPE = 'application/gzip'
const BUNDLE_LABELS = { thing: 'A code bundle', announcedBy: 'the address names' }

/** Answers 503 with a wait: the store of files does not work at the moment. */
export function storeAway(): ApiError {
  const headers = { ...UNREAD.headers, 'Retry-After': '10' }
  return new ApiError(503, 'The store of code bundles is not available at the moment', { headers })
}

/**
 * Stores a bundle and returns its size; an existing one is read to its end and changes nothing.
 * Throws ApiError: 400 for a wrong hash and for other formats than tar.gz, 408 for a slow sender, 409 when the
 * account has too many, 413, 503 when the store fails.
 */
export async function receiveBundle(parts: BundleParts, upload: BundleUpload): Promise<number> {
  const { database, store } = parts
  const { accountId, sha256, body, length } = upload
  const { bytesMax } = BUNDLE_BOUNDS
  const hash = Buffer.from(sha256, 'hex')
  const expected = { bytesMax, sha256: hash, labels: BUNDLE_LABELS, head: BUNDLE_HEAD }
  if (length !== undefined && Number(length) > bytesMax)
    throw tooLarge(bytesMax, BUNDLE_LABELS.thing)
  if ((await bundlesAmong(database, accountId, [sha256])).length > 0) return again(body, expected)
  if (store.needsLength && length === undefined) {
    throw new ApiError(400, 'This platform needs a Content-Length', UNREAD)
  }
  return keep(parts, upload, expected)
}

async function again(body: BundleUpload['body'], expected: Expected): Promise<number> {
  let bytes = 0
  for await (const chunk of arrivingBytes(body, expected)) bytes += chunk.byteLength
  return bytes
}

async function keep(parts: BundleParts, upload: BundleUpload, expected: Expected): Promise<number> {
  const { database, store } = parts
  const { accountId, sha256, body, length } = upload
  const id = randomUUID()
  const one = { id, accountId, sha256, storedAs: `bundles/${id}` }
  if (!(await noteArrivingBundle(database, one))) {
    const message = `An account has at most ${BUNDLE_BOUNDS.bundlesMax} code bundles; delete some`
    throw new ApiError(409, message, UNREAD)
  }
  let bytes = 0
  try {
    const checked = arrivingBytes(body, expected, (count) => (bytes = count))
    const facts = {
      bytes: length === undefined ? undefined : Number(length),
      contentType: CONTENT_TYPE,
    }
    await store.put(one.storedAs, checked, { ...facts, sha256: expected.sha256 })
    if (!(await settleBundle(database, id, bytes)))
      throw new ApiError(408, 'The upload took too long')
    return bytes
  } catch (error) {
    // When the database was lost, it is unknown whether the bundle is visible: if not, retention removes its
    // leftovers.
    if (!isUnavailable(error)) await removeBundle(parts, one)
    if (isDuplicate(error)) return (await findBundle(database, upload))?.bytes ?? bytes
    if (!(error instanceof ArtifactStoreError)) throw error
    parts.log.warn({ err: error }, 'a code bundle could not be stored')
    throw storeAway()
  }
}

/** Removes a bundle that is not visible; if that fails, retention does it later. Never rejects. */
export async function removeBundle(
  { database, store, log }: BundleParts,
  { id, storedAs }: { id: string; storedAs: string },
): Promise<void> {
  try {
    await hideBundle(database, id)
    await store.remove(storedAs)
    await forgetBundles(database, [id])
  } catch (error) {
    log.warn({ err: error }, 'what is left of a code bundle is removed later')
  }
}
