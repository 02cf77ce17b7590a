// Code bundles: brought, listed, downloaded, deleted, and dropped when no check has named them for long.
// Agents fetch those that checks of their location name.
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import * as z from 'zod'
import { BUNDLE_BOUNDS, BundleHash, CodeBundle } from '../../contract/api/code-bundle.ts'
import { lockAccount } from '../accounts/queries/accounts.ts'
import {
  findBundle,
  findBundleFor,
  forgetBundles,
  hideStaleBundles,
  hideUnnamedBundle,
  listBundles,
  type StoredBundle,
} from './queries.ts'
import { defineAgentOperation, type DefinedAgentOperation } from '../http/agent-operation.ts'
import { ArtifactStoreError } from '../artifacts/store.ts'
import type { BackgroundJob } from '../jobs/background-jobs.ts'
import { type BundleParts, receiveBundle, removeBundle, storeAway } from './intake.ts'
import { ApiError, UNREAD, notFound } from '../http/errors.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { Resource } from '../http/resource.ts'

const CONTENT_TYPE = 'application/gzip'
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
  looks: { sha256: '[0-9a-f]{64}' },
  what: 'code bundle',
  schema: CodeBundle,
}
const bundles = new Resource(kind)
const { tag, looks } = kind
const onOne = { tag, path: `${kind.path}/{sha256}`, params, looks }

/** The operations of the public API on code bundles. */
export function bundleOperations(parts: BundleParts): DefinedOperation[] {
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
        await removeBundle(parts, one)
        return true
      },
    ),
  ]
}

function put(parts: BundleParts): DefinedOperation {
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
        return { status: 200, json: JSON.stringify({ sha256, bytes }) }
      } finally {
        end()
      }
    },
  })
}

function get(parts: BundleParts): DefinedOperation {
  const turns = createTurns(DOWNLOADS_MAX, BUSY_MESSAGE)
  return defineOperation({
    ...onOne,
    summary: 'Download a code bundle',
    description: 'HEAD shows whether it exists.',
    method: 'get',
    answers: {
      status: 200,
      schema: bytesSchema,
      contentType: CONTENT_TYPE,
      description: 'The bundle as it was brought',
    },
    async answer({ key: { accountId }, params: { sha256 }, isHead }) {
      const one = await findBundle(parts.database, { accountId, sha256 })
      if (one === undefined) throw notFound('code bundle')
      return isHead
        ? new Response(null, { headers: headersOf(one, sha256) })
        : await download(parts, one, { sha256, end: turns() })
    },
  })
}

/** The call by which agents fetch bundles. */
export function agentBundleOperation(parts: BundleParts): DefinedAgentOperation {
  const turns = createTurns(DOWNLOADS_MAX, BUSY_MESSAGE)
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
      const one = await findBundleFor(parts.database, { accountId, locationId, sha256 })
      if (one === undefined) throw notFound('code bundle')
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
  parts: BundleParts,
  one: StoredBundle,
  { sha256, end }: { sha256: string; end: () => void },
): Promise<Response> {
  const stream = await parts.store.get(one.storedAs).catch((error: unknown) => {
    end()
    if (error instanceof ArtifactStoreError) throw storeAway()
    throw error
  })
  if (stream === undefined) {
    end()
    // The store has lost it: it must be uploaded again and does not count as known.
    parts.log.warn({ sha256 }, 'a code bundle is gone from the store')
    await removeBundle(parts, one)
    throw notFound('code bundle')
  }
  stream.once('close', end)
  const body = Readable.toWeb(stream) as ReadableStream<Uint8Array>
  return new Response(body as never, { headers: headersOf(one, sha256) })
}

/** Limits concurrency; the function that a turn returns is called once, at its end. */
function createTurns(max: number, message: string): () => () => void {
  let taken = 0
  return () => {
    if (taken >= max) {
      throw new ApiError(503, message, { headers: { ...UNREAD.headers, 'Retry-After': '5' } })
    }
    taken++
    return () => void taken--
  }
}

const EVERY_MS = 600_000
const TIMEOUT_MS = 600_000
const AT_ONCE = 100
/** Longer than the maximum duration of an upload. */
const ARRIVING_MS_MAX = 2 * 3_600_000

/** Drops bundles that no check has named for long, and what uploads that broke off have left. */
export function bundleRetention(
  { database, store }: Pick<BundleParts, 'database' | 'store'>,
  unusedMs: number = BUNDLE_BOUNDS.unusedMsMax,
): BackgroundJob {
  return {
    name: 'code-bundles-unused',
    everyMs: EVERY_MS,
    timeoutMs: TIMEOUT_MS,
    async run(signal) {
      const bounds = { unusedMs, arrivingMsMax: ARRIVING_MS_MAX, rowsMax: AT_ONCE }
      for (;;) {
        const stale = await hideStaleBundles(database, bounds)
        for (const { id, storedAs } of stale) {
          signal.throwIfAborted()
          await store.remove(storedAs)
          // Bytes first: a row without them is tried again, bytes without a row would stay for ever.
          await forgetBundles(database, [id])
        }
        if (stale.length < AT_ONCE) return
      }
    },
  }
}
