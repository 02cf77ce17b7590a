// Intake of artifacts: streams files of results from agents into the store, in bounded memory.
import { randomUUID } from 'node:crypto'
import * as z from 'zod'
import { ArtifactAnswer, PROTOCOL_BOUNDS } from '../../contract/protocol/agent-protocol.ts'
import { artifactBytesMax } from '../../contract/versions.ts'
import {
  countArtifacts,
  hasOwner,
  knownArtifact,
  noteArriving,
  noteRefused,
  settleArtifact,
} from './queries.ts'
import { defineAgentOperation, type DefinedAgentOperation } from '../http/agent-operation.ts'
import type { ArtifactFacts } from './store.ts'
import { ARTIFACT } from './routes.ts'
import {
  type Arriving,
  createTurns,
  type FileParts,
  readThrough,
  requireLength,
  storeFile,
} from './transfer.ts'
import { ApiError, UNREAD, notFound, tooLarge } from '../http/errors.ts'
import type { KnownLocationKey } from '../http/keys.ts'

interface Upload extends Arriving {
  key: KnownLocationKey
  ownerKey: string
  name: string
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
export function artifactOperation(parts: FileParts): DefinedAgentOperation {
  const turns = createTurns(UPLOADS_MAX, 'Too many files arrive at the moment')
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
      const header = (of: string) => c.req.header(of)
      const facts = factsOf(header)
      const bytesMax = artifactBytesMax(/^Vedette\/(\S+)/.exec(header('user-agent') ?? '')?.[1])
      const expected = { bytesMax, sha256: facts.sha256 }
      const { body } = c.req.raw
      const end = turns()
      try {
        const upload = { key, ownerKey: owner, name, facts, expected, body, receivedAt }
        const bytes = await receive(parts, upload)
        const answer: ArtifactAnswer = { bytes, sha256: facts.sha256.toString('hex') }
        return JSON.stringify(answer)
      } finally {
        end()
      }
    },
  })
}

const SHA256 = /(?:^|,)\s*sha-256=:([A-Za-z0-9+/]{43}=):\s*(?:,|$)/
const MEDIA_TYPE =
  /^[\w!#$&^.+-]{1,127}\/[\w!#$&^.+-]{1,127}(?:\s*;\s*[\w.-]+=(?:[\w.-]+|"[\w .:-]*"))*$/

function factsOf(header: (name: string) => string | undefined): ArtifactFacts {
  const digest = SHA256.exec(header('content-digest') ?? '')?.[1]
  if (digest === undefined) {
    throw new ApiError(400, 'Content-Digest must contain the sha-256 of the body', UNREAD)
  }
  const length = header('content-length')
  const type = header('content-type')?.trim() ?? ''
  return {
    bytes: length === undefined ? undefined : Number(length),
    sha256: Buffer.from(digest, 'base64'),
    contentType: type.length <= 255 && MEDIA_TYPE.test(type) ? type : 'application/octet-stream',
  }
}

/** Stores one file and returns its size; throws the errors listed at the operation. */
async function receive(parts: FileParts, upload: Upload): Promise<number> {
  const { database } = parts
  const { key, ownerKey, name, facts, receivedAt } = upload
  const { locationId } = key
  const owner = ownerOf(ownerKey)
  const isAhead = 'slotMs' in owner && owner.slotMs > receivedAt + PROTOCOL_BOUNDS.aheadMsMax
  if (isAhead || !(await hasOwner(database, locationId, owner))) throw unread(notFound('result'))
  const known = await knownArtifact(database, { locationId, ownerKey, name })
  if (known?.state === 'stored') {
    if (known.sha256?.equals(facts.sha256) !== true) throw unread(otherFile())
    return readThrough(upload)
  }
  try {
    return await storeArtifact(parts, upload)
  } catch (error) {
    if (error instanceof ApiError && error.status === 413) {
      const why = { refusal: 'TOO_LARGE', bytes: facts.bytes ?? null } as const
      await noteRefused(database, { ...rowOf(upload), id: randomUUID() }, why)
    }
    throw error
  }
}

async function storeArtifact(parts: FileParts, upload: Upload): Promise<number> {
  const { database, store } = parts
  const { key, ownerKey, name, facts, expected } = upload
  const { locationId } = key
  if (facts.bytes !== undefined && facts.bytes > expected.bytesMax) {
    throw tooLarge(expected.bytesMax, 'An artifact')
  }
  const { artifactsPerResultMax: max } = PROTOCOL_BOUNDS
  if ((await countArtifacts(database, locationId, ownerKey)) >= max + 1) {
    throw unread(new ApiError(409, `A result must have at most ${max} artifacts`))
  }
  requireLength(store, facts)
  const id = randomUUID()
  const file = { id, storedAs: `${new Date().toISOString().slice(0, 10)}/${id}` }
  await noteArriving(database, { ...rowOf(upload), ...file })
  const settle = (bytes: number) =>
    database.transaction((tx) => settleArtifact(tx, id, { bytes, sha256: facts.sha256 }))
  const bytes = await storeFile(parts, ARTIFACT, { ...file, ...upload, settle })
  if (bytes !== undefined) return bytes
  const known = await knownArtifact(database, { locationId, ownerKey, name })
  if (known?.sha256?.equals(facts.sha256) !== true) throw otherFile()
  return known.bytes ?? 0
}

function rowOf({ key: { accountId, locationId }, ownerKey, name, facts: { contentType } }: Upload) {
  return { accountId, locationId, ownerKey, name, contentType }
}

function unread(error: ApiError): ApiError {
  return new ApiError(error.status, error.message, UNREAD)
}

function otherFile(): ApiError {
  return new ApiError(409, 'The result has another file of that name')
}

function ownerOf(ownerKey: string) {
  const [, monitorId, slot] = SLOT_OWNER.exec(ownerKey) ?? []
  if (monitorId === undefined) return { run: ownerKey }
  return { monitorId, slotMs: Number(slot) }
}
