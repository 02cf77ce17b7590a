// Files of results after their arrival: download, and removal after retention.
import { join } from 'node:path'
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import * as z from 'zod'
import { findArtifact, forgetArtifacts, staleArtifacts, type StoredArtifact } from './queries.ts'
import { ARRIVING_MS_MAX, openFile, removeStale, RETENTION } from './transfer.ts'
import type { Database } from '../../database/database.ts'
import { createArtifactBucket, type BucketOptions } from './bucket.ts'
import { createArtifactFolder } from './folder.ts'
import type { ArtifactStore, ByteRange } from './store.ts'
import type { BackgroundJob } from '../jobs/background-jobs.ts'
import { orNotFound } from '../http/errors.ts'
import { defineOperation, type DefinedOperation } from '../http/operation.ts'
import { idParameter } from '../http/parameters.ts'

/** Files of results. */
export const ARTIFACT = { name: 'artifact', forget: forgetArtifacts } as const

export interface ArtifactsOptions {
  database: Database
  store: ArtifactStore
  retentionMs: number
}

/** The store that the settings name. */
export function createArtifactStore({
  dataDir,
  artifactBucket,
}: {
  dataDir: string
  artifactBucket: BucketOptions | undefined
}): ArtifactStore {
  if (artifactBucket !== undefined) return createArtifactBucket(artifactBucket)
  return createArtifactFolder(join(dataDir, 'artifacts'))
}

/** The operations on files of results. */
export function artifactOperations({ database, store }: ArtifactsOptions): DefinedOperation[] {
  return [
    defineOperation({
      tag: 'Artifacts',
      summary: 'Download a file of a result',
      description: 'Supports Range and If-None-Match.',
      method: 'get',
      path: '/v1/artifacts/{artifactId}',
      action: 'read',
      params: { artifactId: idParameter('artifact') },
      answers: {
        status: 200,
        schema: z.string().meta({ format: 'binary' }),
        contentType: 'application/octet-stream',
        description: 'The file, with the content type that its agent named',
        also: { 206: 'The part that Range asks for', 304: 'The file is the one that is known' },
      },
      async answer({ key, params: { artifactId }, header }) {
        const one = orNotFound(await findArtifact(database, key.accountId, artifactId), 'artifact')
        if (isKnown(header('if-none-match'), one)) {
          return new Response(null, { status: 304, headers: { ETag: tagOf(one) } })
        }
        return await download(store, one, rangeOf(header('range'), one.bytes))
      },
    }),
  ]
}

async function download(
  store: ArtifactStore,
  one: StoredArtifact,
  range: ByteRange | undefined,
): Promise<Response> {
  const stream = orNotFound(await openFile(store, ARTIFACT, one, range), 'artifact')
  const length = range === undefined ? one.bytes : range.last - range.first + 1
  const headers = new Headers({
    'Content-Type': one.contentType,
    'Content-Length': String(length),
    'Content-Disposition': disposition(one.name),
    'Accept-Ranges': 'bytes',
    ETag: tagOf(one),
    // Whatever an agent brought, a browser saves it and runs nothing of it.
    'X-Content-Type-Options': 'nosniff',
    'Content-Security-Policy': "default-src 'none'; sandbox",
  })
  if (range !== undefined) {
    headers.set('Content-Range', `bytes ${range.first}-${range.last}/${one.bytes}`)
  }
  const body = Readable.toWeb(stream) as ReadableStream<Uint8Array>
  return new Response(body as never, { status: range === undefined ? 200 : 206, headers })
}

function tagOf({ sha256 }: StoredArtifact): string {
  return `"${sha256.toString('hex')}"`
}

function isKnown(header: string | undefined, one: StoredArtifact): boolean {
  const tags = (header ?? '').split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return tags.some((tag) => tag === tagOf(one) || tag === '*')
}

/** The one part that is asked for (RFC 9110, section 14); what cannot be had gives the whole file. */
function rangeOf(header: string | undefined, bytes: number): ByteRange | undefined {
  const [, from, to] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header?.trim() ?? '') ?? []
  if (from === undefined || to === undefined || (from === '' && to === '')) return undefined
  const first = from === '' ? Math.max(0, bytes - Number(to)) : Number(from)
  const last = from === '' || to === '' ? bytes - 1 : Math.min(Number(to), bytes - 1)
  return first <= last ? { first, last } : undefined
}

/** Attachment with its name, RFC 6266 and RFC 8187. */
function disposition(name: string): string {
  const plain = name.replaceAll(/[^\x20-\x7e]|["\\%]/g, '_')
  const full = encodeURIComponent(name).replaceAll(
    /[!'()*]/g,
    (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${plain}"; filename*=UTF-8''${full}`
}

const DAY_MS = 86_400_000

/** Removes files whose time is over, and what uploads that broke off have left. */
export function artifactRetention(options: ArtifactsOptions): BackgroundJob {
  const { database, store, retentionMs } = options
  const stale = (rowsMax: number) =>
    staleArtifacts(database, { retentionMs, arrivingMsMax: ARRIVING_MS_MAX, rowsMax })
  return {
    name: 'artifacts-old',
    ...RETENTION,
    async run(signal) {
      await removeStale(options, ARTIFACT, stale, signal)
      const day = new Date(Date.now() - retentionMs - DAY_MS).toISOString().slice(0, 10)
      await store.dropBefore(day)
    },
  }
}
