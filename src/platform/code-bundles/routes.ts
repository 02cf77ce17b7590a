// Code bundles: brought, listed, downloaded, deleted, and dropped when no check has named them for long.
// Agents fetch those that checks of their location name.
import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import * as z from 'zod'
import { BUNDLE_BOUNDS, BundleHash, CodeBundle } from '../../contract/api/code-bundle.ts'
import { lockAccount } from '../accounts/queries/accounts.ts'
import { BUNDLE_HEAD } from './head.ts'
import {
  type BundleAddress,
  bundlesAmong,
  findBundle,
  findBundleFor,
  forgetBundles,
  hideBundle,
  hideStaleBundles,
  hideUnnamedBundle,
  listBundles,
  noteArrivingBundle,
  settleBundle,
  type StoredBundle,
} from './queries.ts'
import { defineAgentOperation, type DefinedAgentOperation } from '../http/agent-operation.ts'
import {
  ARRIVING_MS_MAX,
  createTurns,
  type FileParts,
  openFile,
  readThrough,
  removeFile,
  removeStale,
  requireLength,
  RETENTION,
  storeFile,
} from '../artifacts/transfer.ts'
import type { BackgroundJob } from '../jobs/background-jobs.ts'
import { ApiError, notFound, tooLarge, UNREAD, orNotFound } from '../http/errors.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { Resource } from '../http/resource.ts'

/** Code bundles as files of the store. */
const BUNDLE = { name: 'code bundle', forget: forgetBundles } as const

const CONTENT_TYPE = 'application/gzip'
const BUNDLE_LABELS = { thing: 'A code bundle', announcedBy: 'the address names' }
/** Maximum number of concurrent uploads, of concurrent downloads by clients, and of those by agents. */
const UPLOADS_MAX = 16
const DOWNLOADS_MAX = 64
const BUSY_MESSAGE = 'Too many code bundles are being transferred at the moment'

const params = {
  sha256: BundleHash.meta({ description: 'SHA-256 of the bundle, hex in lower case' }),
}
const bytesSchema = z.string().meta({ format: 'binary' })
const kind = {
  tag: 'Code Bundles',
  path: '/v1/code-bundles',
  one: params,
  what: 'code bundle',
  schema: CodeBundle,
}
const bundles = new Resource(kind)
const onOne = { tag: kind.tag, path: `${kind.path}/{sha256}`, params }

/** The operations of the public API on code bundles. */
export function bundleOperations(parts: FileParts): DefinedOperation[] {
  const { database } = parts
  return [
    put(parts),
    bundles.pages(
      {
        summary: 'List code bundles',
        description: 'Newest first.',
        listing: 'code-bundles',
        id: 'CodeBundlesPage',
      },
      database,
      listBundles,
    ),
    get(parts),
    bundles.remove(
      { summary: 'Delete a code bundle', conflict: 'A check names it' },
      async (address) => {
        const one = await database.transaction(async (tx) => {
          // Meanwhile no check can be changed to name it.
          await lockAccount(tx, address.accountId)
          return hideUnnamedBundle(tx, address)
        })
        if (one === undefined) return false
        if (one.named) throw new ApiError(409, 'Checks name this code bundle; change them first')
        await removeFile(parts, BUNDLE, one)
        return true
      },
    ),
  ]
}

function put(parts: FileParts): DefinedOperation {
  const turns = createTurns(UPLOADS_MAX, 'Too many code bundles arrive at the moment')
  return defineOperation({
    ...onOne,
    summary: 'Upload a code bundle',
    description:
      'The project of a check suite as a tar.gz, streamed; a check names it as `codeBundlePath: "bundle:<sha256>"`. The same bundle again changes nothing. Bundles that no check has named for a week are dropped.',
    method: 'put',
    upload: {
      contentType: CONTENT_TYPE,
      bytesMax: BUNDLE_BOUNDS.bytesMax,
      description: 'The bytes of the bundle, whose SHA-256 is the one in the address',
    },
    answers: {
      status: 200,
      schema: z.object({ sha256: z.string(), bytes: z.int() }).meta({ id: 'CodeBundleKept' }),
      description: 'It is stored',
    },
    conflict: `The account has ${BUNDLE_BOUNDS.bundlesMax} code bundles already`,
    async answer({ key: { accountId }, params: { sha256 }, bytes: body, header }) {
      const upload = { accountId, sha256, body, length: header('content-length') }
      const end = turns()
      try {
        const bytes = await receiveBundle(parts, upload)
        return JSON.stringify({ sha256, bytes })
      } finally {
        end()
      }
    },
  })
}

interface BundleUpload extends BundleAddress {
  body: ReadableStream<Uint8Array> | null
  /** Content-Length, where it came. */
  length: string | undefined
}

/**
 * Stores a bundle and returns its size; an existing one is read to its end and changes nothing.
 * Throws ApiError: 400 for a wrong hash and for other formats than tar.gz, 408 for a slow sender, 409 when the
 * account has too many, 413, 503 when the store fails.
 */
async function receiveBundle(parts: FileParts, upload: BundleUpload): Promise<number> {
  const { database, store } = parts
  const { accountId, sha256, body, length } = upload
  const { bytesMax, bundlesMax } = BUNDLE_BOUNDS
  const hash = Buffer.from(sha256, 'hex')
  const bytes = length === undefined ? undefined : Number(length)
  const facts = { bytes, sha256: hash, contentType: CONTENT_TYPE }
  const expected = { bytesMax, sha256: hash, labels: BUNDLE_LABELS, head: BUNDLE_HEAD }
  if (bytes !== undefined && bytes > bytesMax) throw tooLarge(bytesMax, BUNDLE_LABELS.thing)
  const known = await bundlesAmong(database, accountId, [sha256])
  if (known.length > 0) return readThrough({ body, expected })
  requireLength(store, facts)
  const id = randomUUID()
  const file = { id, storedAs: `bundles/${id}` }
  if (!(await noteArrivingBundle(database, { accountId, sha256, ...file }))) {
    const message = `An account has at most ${bundlesMax} code bundles; delete some`
    throw new ApiError(409, message, UNREAD)
  }
  const settle = (size: number) => settleBundle(database, id, size)
  const stored = await storeFile(parts, BUNDLE, { ...file, body, expected, facts, settle })
  return stored ?? (await findBundle(database, upload))?.bytes ?? 0
}

function get(parts: FileParts): DefinedOperation {
  const turns = createTurns(DOWNLOADS_MAX, BUSY_MESSAGE, {})
  return defineOperation({
    ...onOne,
    summary: 'Download a code bundle',
    description: 'HEAD shows whether it exists.',
    method: 'get',
    answers: {
      status: 200,
      schema: bytesSchema,
      contentType: CONTENT_TYPE,
      description: 'The bundle as it was uploaded',
    },
    async answer({ key: { accountId }, params: { sha256 }, isHead }) {
      const one = orNotFound(await findBundle(parts.database, { accountId, sha256 }), 'code bundle')
      return isHead
        ? new Response(null, { headers: headersOf(one, sha256) })
        : await download(parts, one, { sha256, end: turns() })
    },
  })
}

/** The call by which agents fetch bundles. */
export function agentBundleOperation(parts: FileParts): DefinedAgentOperation {
  const turns = createTurns(DOWNLOADS_MAX, BUSY_MESSAGE, {})
  return defineAgentOperation({
    summary: 'Fetch the code bundle of a check suite',
    description:
      'Only bundles that a check of the key’s location names, or named within the last two hours. Streamed, as a whole.',
    method: 'get',
    path: '/agent/v1/bundles/{sha256}',
    kind: 'bundles',
    params,
    answers: {
      schema: bytesSchema,
      contentType: CONTENT_TYPE,
      description: 'The bundle, whose SHA-256 is the one in the address',
    },
    errors: { 404: 'No check of the location names such a bundle, or it is not here' },
    async answer({ key: { accountId, locationId }, params: { sha256 } }) {
      const one = orNotFound(
        await findBundleFor(parts.database, { accountId, locationId, sha256 }),
        'code bundle',
      )
      return download(parts, one, { sha256, end: turns() })
    },
  })
}

function headersOf({ bytes }: StoredBundle, sha256: string): Record<string, string> {
  return {
    'Content-Type': CONTENT_TYPE,
    'Content-Length': String(bytes),
    'Content-Disposition': `attachment; filename="${sha256}.tar.gz"`,
    ETag: `"${sha256}"`,
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
  }
}

async function download(
  parts: FileParts,
  one: StoredBundle,
  { sha256, end }: { sha256: string; end: () => void },
): Promise<Response> {
  let stream: Readable | undefined
  try {
    stream = await openFile(parts.store, BUNDLE, one)
  } finally {
    if (stream === undefined) end()
    else stream.once('close', end)
  }
  if (stream !== undefined) {
    const body = Readable.toWeb(stream) as ReadableStream<Uint8Array>
    return new Response(body as never, { headers: headersOf(one, sha256) })
  }
  // The store has lost it: it must be uploaded again and does not count as known.
  parts.log.warn({ sha256 }, 'a code bundle is missing in the store')
  await removeFile(parts, BUNDLE, one, hideBundle)
  throw notFound('code bundle')
}

/** Drops bundles that no check has named for long, and what uploads that broke off have left. */
export function bundleRetention(
  parts: Pick<FileParts, 'database' | 'store'>,
  unusedMs: number = BUNDLE_BOUNDS.unusedMsMax,
): BackgroundJob {
  const stale = (rowsMax: number) =>
    hideStaleBundles(parts.database, { unusedMs, arrivingMsMax: ARRIVING_MS_MAX, rowsMax })
  return {
    name: 'code-bundles-unused',
    ...RETENTION,
    run: (signal) => removeStale(parts, BUNDLE, stale, signal),
  }
}
