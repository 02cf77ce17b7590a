// Files of results that are not delivered yet, on disk, encrypted as they are copied and opened as they are sent,
// in memory that does not grow with them:
//   <id>.data   salt, then pieces of 64 KiB, each encrypted under its number
//   <id>.meta   the owner; without it the file is unclaimed, and is removed after a while
import { randomBytes, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, open, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { artifactOwner } from '../../contract/protocol/agent-protocol.ts'
import type { Artifact, Result } from '../../contract/result.ts'
import type { Log } from '../../process/log.ts'
import { SALT_BYTES, TAG_BYTES, type AgentCipher } from './spool/agent-cipher.ts'
import { diskMessage } from './spool/disk.ts'

/** A file that waits to be sent. */
export interface WaitingArtifact extends Artifact {
  /** Names its result, as in the address that it is sent to. */
  owner: string
  /** When its result came. Milliseconds since the Unix epoch. */
  at: number
  id: string
  /** On disk. */
  diskBytes: number
}

/** A folder of files, and what opens them. */
export interface ArtifactPlace {
  folder: string
  cipher: AgentCipher
}

export interface ArtifactSpoolOptions {
  folder: string
  cipher: AgentCipher
  /** Where files lie that a former key encrypted; they are sent, and none are added. */
  former?: readonly ArtifactPlace[]
  log: Log
  /** Limit of bytes of the files; read each time. */
  bytesMax: () => number
  /** A file was given up for want of room. */
  onDropped: () => void
}

const PIECE_BYTES = 64 * 1024
/** Longer than any run with its retries; an unclaimed file is of an attempt that was repeated. */
const UNCLAIMED_MS_MAX = 3_600_000
const NO_DATA = Buffer.alloc(0)

export class ArtifactSpool {
  readonly #options: ArtifactSpoolOptions
  /** Of files under former keys, by id. */
  readonly #places = new Map<string, ArtifactPlace>()
  /** Oldest first. */
  #waiting: WaitingArtifact[] = []
  readonly #staged = new WeakMap<Artifact, { id: string; diskBytes: number }>()
  #stagedBytes = new Map<string, { at: number; bytes: number }>()

  constructor(options: ArtifactSpoolOptions) {
    this.#options = options
  }

  /** Finds what an earlier run left. Never rejects. */
  async load(): Promise<void> {
    await this.#loadFrom(this.#options)
    for (const place of this.#options.former ?? []) await this.#loadFrom(place)
    this.#waiting.sort((a, b) => a.at - b.at)
  }

  async #loadFrom(place: ArtifactPlace): Promise<void> {
    const { folder, cipher } = place
    const names = await readdir(folder).catch(() => [])
    for (const name of names) {
      const [id = '', kind] = name.split('.')
      if (kind !== 'data') continue
      const encrypted = await readFile(join(folder, `${id}.meta`)).catch(() => undefined)
      const meta = encrypted === undefined ? undefined : cipher.decrypt(encrypted, `artifact ${id}`)
      const size = await stat(join(folder, name)).then(
        (found) => found.size,
        () => 0,
      )
      if (folder !== this.#options.folder) this.#places.set(id, place)
      if (meta === undefined) await this.#remove(id)
      else
        this.#waiting.push({ ...(JSON.parse(meta.toString()) as WaitingArtifact), diskBytes: size })
    }
  }

  bytes(): number {
    const waiting = this.#waiting.reduce((sum, { diskBytes }) => sum + diskBytes, 0)
    return [...this.#stagedBytes.values()].reduce((sum, { bytes }) => sum + bytes, waiting)
  }

  count(): number {
    return this.#waiting.length
  }

  /** Copies a file of a run, before the run's folder is removed. Returns why it cannot be stored, or undefined. */
  async stage(path: string, artifact: Artifact): Promise<string | undefined> {
    const { folder, log } = this.#options
    this.#dropUnclaimed()
    const diskBytes = encryptedBytes(artifact.bytes)
    if (!this.makeRoom(this.#options.bytesMax() - diskBytes))
      return `it has ${artifact.bytes} bytes, and there is no room for it on disk`
    const id = randomUUID()
    this.#stagedBytes.set(id, { at: Date.now(), bytes: diskBytes })
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      await this.#copy(path, id, artifact.bytes)
      this.#staged.set(artifact, { id, diskBytes })
      return undefined
    } catch (error) {
      this.#stagedBytes.delete(id)
      await this.#remove(id)
      log.warn({ err: error }, 'a file of a result cannot be kept')
      return `it has ${artifact.bytes} bytes, and ${diskMessage(error)}`
    }
  }

  async #copy(path: string, id: string, bytes: number): Promise<void> {
    const salt = randomBytes(SALT_BYTES)
    const cipher = this.#options.cipher.ofFile(salt)
    const file = await open(join(this.#options.folder, `${id}.data`), 'wx', 0o600)
    try {
      await file.appendFile(salt)
      let number = 0
      let left = bytes
      // A stream cannot read zero bytes.
      const stream = bytes === 0 ? [] : createReadStream(path, { end: bytes - 1 })
      for await (const piece of inPieces(stream)) {
        await file.appendFile(cipher.encrypt(piece, number++, NO_DATA))
        left -= piece.length
      }
      if (left !== 0) throw new Error('the file became shorter while it was read')
    } finally {
      await file.close()
    }
  }

  /** The staged files of a result are to be sent. Never rejects; resolves when that is on disk. */
  async commit(result: Result): Promise<void> {
    const { folder, cipher, log } = this.#options
    for (const artifact of result.artifacts) {
      const staged = this.#staged.get(artifact)
      if (staged === undefined) continue
      const { id, diskBytes } = staged
      this.#staged.delete(artifact)
      const waiting = { ...artifact, ...staged, owner: artifactOwner(result), at: Date.now() }
      this.#stagedBytes.delete(id)
      this.#waiting.push({ ...waiting, diskBytes })
      const meta = cipher.encrypt(Buffer.from(JSON.stringify(waiting)), `artifact ${id}`)
      await writeFile(join(folder, `${id}.meta`), meta, { mode: 0o600 }).catch((error: unknown) =>
        log.warn({ err: error }, 'a file of a result will not survive a restart'),
      )
    }
  }

  /** The oldest file whose result came before `beforeMs`. */
  next(beforeMs: number): WaitingArtifact | undefined {
    const [first] = this.#waiting
    return first !== undefined && first.at < beforeMs ? first : undefined
  }

  /** Lets others go first. */
  postpone(artifact: WaitingArtifact): void {
    if (!this.#waiting.includes(artifact)) return
    this.#waiting = [...this.#waiting.filter((one) => one !== artifact), artifact]
  }

  /** The bytes of a file; throws when they are damaged. */
  async *read({ id, bytes }: WaitingArtifact): AsyncGenerator<Buffer, void, undefined> {
    const place = this.#places.get(id) ?? this.#options
    const file = await open(join(place.folder, `${id}.data`), 'r')
    try {
      const salt = await readWhole(file, SALT_BYTES)
      const cipher = place.cipher.ofFile(salt)
      for (let number = 0, left = bytes; left > 0; number++) {
        const encrypted = await readWhole(file, Math.min(left, PIECE_BYTES) + TAG_BYTES)
        const piece = cipher.decrypt(encrypted, number, NO_DATA)
        if (piece === undefined) throw new ArtifactDamagedError()
        left -= piece.length
        yield piece
      }
    } finally {
      await file.close()
    }
  }

  /** It is delivered, or given up. Never rejects. */
  async forget(artifact: WaitingArtifact): Promise<void> {
    this.#waiting = this.#waiting.filter((one) => one !== artifact)
    await this.#remove(artifact.id)
  }

  /** Drops the oldest files until the rest has at most `bytes`; false when that is not possible. */
  makeRoom(bytes: number): boolean {
    while (this.bytes() > bytes) {
      const oldest = this.#waiting.shift()
      if (oldest === undefined) return false
      this.#options.onDropped()
      void this.#remove(oldest.id)
    }
    return bytes >= 0
  }

  #dropUnclaimed(): void {
    const before = Date.now() - UNCLAIMED_MS_MAX
    for (const [id, { at }] of this.#stagedBytes) {
      if (at > before) continue
      this.#stagedBytes.delete(id)
      void this.#remove(id)
    }
  }

  // What cannot be removed costs disk, and is found again at the next start.
  async #remove(id: string): Promise<void> {
    const { folder } = this.#places.get(id) ?? this.#options
    for (const kind of ['meta', 'data']) {
      await rm(join(folder, `${id}.${kind}`), { force: true }).catch(() => undefined)
    }
  }
}

/** A stored file is damaged. */
class ArtifactDamagedError extends Error {
  readonly code = 'DAMAGED'

  constructor() {
    super('a kept file of a result is damaged')
    this.name = 'ArtifactDamagedError'
  }
}

function encryptedBytes(bytes: number): number {
  return SALT_BYTES + bytes + TAG_BYTES * Math.ceil(bytes / PIECE_BYTES)
}

/** Pieces of one size but for the last, whatever a stream hands out. */
async function* inPieces(stream: AsyncIterable<unknown> | never[]): AsyncGenerator<Buffer> {
  let rest: Buffer = NO_DATA
  for await (const chunk of stream) {
    rest = rest.length === 0 ? (chunk as Buffer) : Buffer.concat([rest, chunk as Buffer])
    for (; rest.length >= PIECE_BYTES; rest = rest.subarray(PIECE_BYTES)) {
      yield rest.subarray(0, PIECE_BYTES)
    }
  }
  if (rest.length > 0) yield rest
}

async function readWhole(
  file: {
    read: (buffer: Buffer, offset: number, length: number) => Promise<{ bytesRead: number }>
  },
  bytes: number,
): Promise<Buffer> {
  const buffer = Buffer.alloc(bytes)
  for (let done = 0; done < bytes;) {
    const { bytesRead } = await file.read(buffer, done, bytes - done)
    if (bytesRead === 0) throw new ArtifactDamagedError()
    done += bytesRead
  }
  return buffer
}
