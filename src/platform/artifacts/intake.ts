// Intake of artifacts: streams files of results from agents into the store, in bounded memory.
import { randomUUID } from 'node:crypto'
import * as z from 'zod'
import { ArtifactAnswer, PROTOCOL_BOUNDS } from '../../contract/protocol/agent-protocol.ts'
import { artifactBytesMax } from '../../contract/versions.ts'
import type { Log } from '../../process/log.ts'
import {
  type ArrivingArtifact,
  countArtifacts,
  forgetArtifacts,
  hasOwner,
  knownArtifact,
  noteArriving,
  noteRefused,
  settleArtifact,
} from './queries.ts'
import type { Database } from '../../database/database.ts'
import { isDuplicate, isUnavailable } from '../../database/database-failure.ts'
import {
  agentJson,
  defineAgentOperation,
  type DefinedAgentOperation,
} from '../http/agent-operation.ts'
import { arrivingBytes, type Expected } from '../http/arriving-bytes.ts'
import { type ArtifactFacts, type ArtifactStore, ArtifactStoreError } from './store.ts'
import { ApiError, UNREAD, notFound, tooLarge } from '../http/errors.ts'
import type { KnownLocationKey } from '../http/keys.ts'

/** What taking files needs. */
export interface ArtifactIntake {
  database: Database
  store: ArtifactStore
  log: Pick<Log, 'warn'>
}

/** A file on its way. */
interface Upload {
  key: KnownLocationKey
  ownerKey: string
  name: string
  facts: ArtifactFacts
  expected: Expected
  body: ReadableStream<Uint8Array> | null
  /** Milliseconds on the platform's clock. */
  receivedAt: number
}

const NAME_BYTES_MAX = 255
/** Concurrent uploads of one process. */
const UPLOADS_MAX = 64
const GUID = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'
const SLOT_OWNER = new RegExp(`^(${GUID})\\.(0|[1-9]\\d{0,15})$`)
const RUN_OWNER = new RegExp(`^${GUID}$`)

/** Whether a file may be called that: one name, no path, nothing that a terminal obeys. */
function isArtifactName(name: string): boolean {
  return (
    name.isWellFormed() &&
    Buffer.byteLength(name) <= NAME_BYTES_MAX &&
    !/^\.{0,2}$/.test(name) &&
    // eslint-disable-next-line no-control-regex
    !/[/\\\u0000-\u001f\u007f-\u009f\u2028\u2029]/.test(name)
  )
}

const params = {
  owner: z
    .string()
    .regex(new RegExp(`${SLOT_OWNER.source}|${RUN_OWNER.source}`))
    .meta({ description: '`<monitor>.<slot>`, or the id of a run on demand' }),
  name: z
    .string()
    .refine(isArtifactName)
    .meta({
      description: `Name of the file, URL-encoded: at most ${NAME_BYTES_MAX} bytes, no separators or control characters`,
    }),
}

/** The call by which agents upload artifacts. */
export function artifactOperation(intake: ArtifactIntake): DefinedAgentOperation {
  let uploads = 0
  return defineAgentOperation({
    summary: 'Upload an artifact of a result',
    description:
      'Streamed. The same file again is answered like the first time. How large it may be depends on the agent’s version in User-Agent (`Vedette/<version>`).',
    method: 'put',
    path: '/agent/v1/artifacts/{owner}/{name}',
    kind: 'artifacts',
    params,
    headers: {
      'Content-Digest': z.string().meta({ description: '`sha-256=:<base64>:`, RFC 9530' }),
      'User-Agent': z.string().optional().meta({ example: 'Vedette/8.4.0' }),
    },
    body: { contentType: '*/*', schema: z.unknown(), description: 'The bytes of the file' },
    answers: { schema: ArtifactAnswer, description: 'It is stored' },
    errors: {
      404: 'The key’s location has no such slot or run',
      408: 'The bytes came too slowly',
      409: 'Another file of that name is here, or the result has too many',
      413: 'The file is too large; its result says so',
    },
    async answer({ c, key, params: { owner, name }, receivedAt }) {
      if (uploads >= UPLOADS_MAX) throw busy()
      const header = (of: string) => c.req.header(of)
      const facts = factsOf(header)
      const bytesMax = artifactBytesMax(/^Vedette\/(\S+)/.exec(header('user-agent') ?? '')?.[1])
      const expected = { bytesMax, sha256: facts.sha256 }
      const body = c.req.raw.body
      const upload = { key, ownerKey: owner, name, facts, expected, body, receivedAt }
      uploads++
      try {
        return agentJson(JSON.stringify(await receive(intake, upload)))
      } finally {
        uploads--
      }
    },
  })
}

function busy(): ApiError {
  const headers = { ...UNREAD.headers, 'Retry-After': '5' }
  return new ApiError(503, 'Too many files arrive at the moment', { headers })
}

const SHA256 = /(?:^|,)\s*sha-256=:([A-Za-z0-9+/]{43}=):\s*(?:,|$)/
const MEDIA_TYPE =
  /^[\w!#$&^.+-]{1,127}\/[\w!#$&^.+-]{1,127}(?:\s*;\s*[\w.-]+=(?:[\w.-]+|"[\w .:-]*"))*$/

function factsOf(header: (name: string) => string | undefined): ArtifactFacts {
  const digest = SHA256.exec(header('content-digest') ?? '')?.[1]
  if (digest === undefined) {
    throw new ApiError(400, 'Content-Digest must hold the sha-256 of the body', UNREAD)
  }
  const length = header('content-length')
  const type = header('content-type')?.trim() ?? ''
  return {
    bytes: length === undefined ? undefined : Number(length),
    sha256: Buffer.from(digest, 'base64'),
    contentType: type.length <= 255 && MEDIA_TYPE.test(type) ? type : 'application/octet-stream',
  }
}

/** Stores one file; throws the errors listed at the operation. */
async function receive(intake: ArtifactIntake, upload: Upload): Promise<ArtifactAnswer> {
  const { database, store } = intake
  const { key, ownerKey, name, facts, expected, receivedAt } = upload
  const { locationId } = key
  const owner = ownerOf(ownerKey)
  const isAhead = 'slotMs' in owner && owner.slotMs > receivedAt + PROTOCOL_BOUNDS.aheadMsMax
  if (isAhead || !(await hasOwner(database, locationId, owner))) throw unread(notFound('result'))
  const known = await knownArtifact(database, { locationId, ownerKey, name })
  if (known?.state === 'stored') return again(upload, known.sha256)
  if (facts.bytes !== undefined && facts.bytes > expected.bytesMax) {
    await refuse(intake, upload)
    throw tooLarge(expected.bytesMax, 'An artifact')
  }
  const { artifactsPerResultMax: max } = PROTOCOL_BOUNDS
  if ((await countArtifacts(database, locationId, ownerKey)) >= max + 1) {
    throw unread(new ApiError(409, `A result must have at most ${max} artifacts`))
  }
  if (store.needsLength && facts.bytes === undefined) {
    throw unread(new ApiError(400, 'This platform needs a Content-Length'))
  }
  return keep(intake, upload)
}

function unread(error: ApiError): ApiError {
  return new ApiError(error.status, error.message, UNREAD)
}

function ownerOf(ownerKey: string) {
  const [, monitorId, slot] = SLOT_OWNER.exec(ownerKey) ?? []
  if (monitorId === undefined) return { run: ownerKey }
  return { monitorId, slotMs: Number(slot) }
}

/** A file that is here already: read to its end, so that the sender receives the answer. */
async function again({ body, expected }: Upload, sha256: Buffer | null): Promise<ArtifactAnswer> {
  if (sha256?.equals(expected.sha256) !== true) throw unread(otherFile())
  let bytes = 0
  for await (const chunk of arrivingBytes(body, expected)) bytes += chunk.byteLength
  return { bytes, sha256: expected.sha256.toString('hex') }
}

function otherFile(): ApiError {
  return new ApiError(409, 'The result has another file of that name')
}

async function keep(intake: ArtifactIntake, upload: Upload): Promise<ArtifactAnswer> {
  const { database, store } = intake
  const { facts, expected, body } = upload
  const one = arrivingOf(upload)
  await noteArriving(database, one)
  let bytes = 0
  try {
    const checked = arrivingBytes(body, expected, (count) => {
      bytes = count
    })
    await store.put(one.storedAs, checked, facts)
    const what = { bytes, sha256: facts.sha256 }
    const settled = await database.transaction((tx) => settleArtifact(tx, one.id, what))
    if (!settled) throw new ApiError(408, 'The upload took too long')
  } catch (error) {
    // When the database was lost, it is unknown whether the file is visible: it stays, and if it is not
    // visible, retention removes it.
    if (!isUnavailable(error)) await giveUp(intake, one)
    return explain(intake, upload, error)
  }
  return { bytes, sha256: facts.sha256.toString('hex') }
}

function arrivingOf({ key, ownerKey, name, facts }: Upload): ArrivingArtifact {
  const { accountId, locationId } = key
  const id = randomUUID()
  const storedAs = `${new Date().toISOString().slice(0, 10)}/${id}`
  return { id, accountId, locationId, ownerKey, name, contentType: facts.contentType, storedAs }
}

/** Removes a partial upload; if that fails, retention does it later, so the row stays. */
async function giveUp({ database, store, log }: ArtifactIntake, one: ArrivingArtifact) {
  try {
    await store.remove(one.storedAs)
    await forgetArtifacts(database, [one.id])
  } catch (error) {
    log.warn({ err: error }, 'what is left of an artifact is removed later')
  }
}

/** Answer to a failed upload: success when a concurrent upload stored the same file. */
async function explain(
  intake: ArtifactIntake,
  upload: Upload,
  error: unknown,
): Promise<ArtifactAnswer> {
  const { database, log } = intake
  if (isDuplicate(error)) {
    const { key, ownerKey, name, expected } = upload
    const known = await knownArtifact(database, { locationId: key.locationId, ownerKey, name })
    if (known?.sha256?.equals(expected.sha256) !== true) throw otherFile()
    return { bytes: known.bytes ?? 0, sha256: expected.sha256.toString('hex') }
  }
  if (error instanceof ApiError && error.status === 413) await refuse(intake, upload)
  if (!(error instanceof ArtifactStoreError)) throw error
  log.warn({ err: error }, 'an artifact could not be stored')
  const headers = { ...UNREAD.headers, 'Retry-After': '10' }
  throw new ApiError(503, 'The store of artifacts is not available at the moment', { headers })
}

async function refuse({ database }: ArtifactIntake, upload: Upload): Promise<void> {
  const { storedAs: _, ...one } = arrivingOf(upload)
  await noteRefused(database, one, { refusal: 'TOO_LARGE', bytes: upload.facts.bytes ?? null })
}
