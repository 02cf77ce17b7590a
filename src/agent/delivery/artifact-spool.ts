// Files of results that are not delivered yet, on disk, encrypted as they are copied and opened as they are sent,
// in memory that does not grow with them:
//   <id>.data   salt, then pieces of 64 KiB, each encrypted under its number
//   <id>.meta   the owner; without it the file is unclaimed, and is removed after a while
import { randomBytes, randomUUID } from 'node:crypto'
import {
  mkdir,
  open,
  readdir,
  readFile,
  rm,
  stat,
  writeFile,
  type FileHandle,
} from 'node:fs/promises'
import { join } from 'node:path'
import { artifactOwner } from '../../contract/protocol/agent-protocol.ts'
import type { Artifact, Result } from '../../contract/result.ts'
import { diskMessage } from '../../process/disk-problem.ts'
import type { Log } from '../../process/log.ts'
import { count, type DeliveryTally } from './metrics.ts'
import { SALT_BYTES, TAG_BYTES } from './spool/agent-cipher.ts'
import type { AgentFolder, EncryptedFolder } from './spool/agent-folder.ts'

interface Metadata extends Artifact {
  /** Names its result, as in the address that it is sent to. */
  owner: string
  /** When its result came. Milliseconds since the Unix epoch. */
  at: number
  id: string
}

/** A file that waits to be sent. */
export interface WaitingArtifact extends Metadata {
  place: EncryptedFolder
  /** On disk. */
  diskBytes: number
}

export interface ArtifactSpoolOptions {
  folder: AgentFolder
  log: Log
  /** Limit of bytes of the files; read each time. */
  bytesMax: () => number
  tally: DeliveryTally
}

const PIECE_BYTES = 64 * 1024
/** Longer than any run with its retries; an unclaimed file is of an attempt that was repeated. */
const UNCLAIMED_MS_MAX = 3_600_000
const NO_DATA = Buffer.alloc(0)

export class ArtifactSpool {
  readonly #options: ArtifactSpoolOptions
  /** Oldest first. */
  #waiting: WaitingArtifact[] = []
  /** Copied, or being copied, for results that are not over. */
  readonly #staged = new Map<Artifact, Pick<WaitingArtifact, 'id' | 'at' | 'place' | 'diskBytes'>>()

  constructor(options: ArtifactSpoolOptions) {
    this.#options = options
  }

  /** Finds what an earlier run left. Never rejects. */
  async load(): Promise<void> {
    for (const place of this.#options.folder.places('artifacts')) await this.#loadFrom(place)
    this.#waiting.sort((a, b) => a.at - b.at)
  }

  async #loadFrom(place: EncryptedFolder): Promise<void> {
    const { folder, cipher } = place
    const names = await readdir(folder).catch(() => [])
    for (const name of names.filter((one) => one.endsWith('.data'))) {
      const id = name.slice(0, -'.data'.length)
      const encrypted = await readFile(join(folder, `${id}.meta`)).catch(() => NO_DATA)
      const meta = cipher.decrypt(encrypted, `artifact ${id}`)
      const { size: diskBytes } = await stat(join(folder, name)).catch(() => ({ size: 0 }))
      if (meta === undefined) await remove({ id, place })
      else {
        this.#waiting.push({ ...(JSON.parse(meta.toString()) as Metadata), place, diskBytes })
      }
    }
  }

  bytes(): number {
    const all = [...this.#waiting, ...this.#staged.values()]
    return all.reduce((sum, { diskBytes }) => sum + diskBytes, 0)
  }

  count(): number {
    return this.#waiting.length
  }

  /** Copies a file of a run, before the run's folder is removed. Returns why it cannot be stored, or undefined. */
  async stage(path: string, artifact: Artifact): Promise<string | undefined> {
    const { folder, log, bytesMax } = this.#options
    const [place] = folder.places('artifacts')
    if (place === undefined) return 'nothing can be stored on disk'
    this.#dropUnclaimed()
    const { bytes } = artifact
    const diskBytes = SALT_BYTES + bytes + TAG_BYTES * Math.ceil(bytes / PIECE_BYTES)
    if (!this.makeRoom(bytesMax() - diskBytes)) {
      return `it has ${bytes} bytes, and there is not enough disk space`
    }
    const staged = { id: randomUUID(), at: Date.now(), place, diskBytes }
    this.#staged.set(artifact, staged)
    try {
      await mkdir(place.folder, { recursive: true, mode: 0o700 })
      await copy(path, staged, bytes)
      return undefined
    } catch (error) {
      this.#staged.delete(artifact)
      await remove(staged)
      log.warn({ err: error }, 'a file of a result cannot be stored')
      return `it has ${bytes} bytes, and ${diskMessage(error)}`
    }
  }

  /** The staged files of a result are to be sent. Never rejects; resolves when that is on disk. */
  async commit(result: Result): Promise<void> {
    for (const artifact of result.artifacts) {
      const staged = this.#staged.get(artifact)
      if (staged === undefined) continue
      this.#staged.delete(artifact)
      const { id, place } = staged
      const meta: Metadata = { ...artifact, id, owner: artifactOwner(result), at: Date.now() }
      this.#waiting.push({ ...staged, ...meta })
      const text = Buffer.from(JSON.stringify(meta))
      const encrypted = place.cipher.encrypt(text, `artifact ${id}`)
      const file = join(place.folder, `${id}.meta`)
      await writeFile(file, encrypted, { mode: 0o600 }).catch((error: unknown) =>
        this.#options.log.warn({ err: error }, 'a file of a result will not survive a restart'),
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
  async *read({ id, bytes, place }: WaitingArtifact): AsyncGenerator<Buffer, void, undefined> {
    const file = await open(dataFile({ id, place }), 'r')
    try {
      const cipher = place.cipher.ofFile(await readWhole(file, SALT_BYTES))
      for (let number = 0, left = bytes; left > 0; number++) {
        const encrypted = await readWhole(file, Math.min(left, PIECE_BYTES) + TAG_BYTES)
        const piece = cipher.decrypt(encrypted, number, NO_DATA)
        if (piece === undefined) throw new Error('a stored file of a result is damaged')
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
    await remove(artifact)
  }

  /** Drops the oldest files until the rest has at most `bytes`; false when that is not possible. */
  makeRoom(bytes: number): boolean {
    while (this.bytes() > bytes) {
      const oldest = this.#waiting.shift()
      if (oldest === undefined) return false
      count(this.#options.tally.artifacts, 'dropped')
      void remove(oldest)
    }
    return bytes >= 0
  }

  #dropUnclaimed(): void {
    const before = Date.now() - UNCLAIMED_MS_MAX
    for (const [artifact, staged] of this.#staged) {
      if (staged.at > before) continue
      this.#staged.delete(artifact)
      void remove(staged)
    }
  }
}

function dataFile({ id, place }: Pick<WaitingArtifact, 'id' | 'place'>): string {
  return join(place.folder, `${id}.data`)
}

async function copy(
  path: string,
  { id, place }: Pick<WaitingArtifact, 'id' | 'place'>,
  bytes: number,
): Promise<void> {
  const salt = randomBytes(SALT_BYTES)
  const cipher = place.cipher.ofFile(salt)
  await using source = await open(path, 'r')
  await using file = await open(dataFile({ id, place }), 'wx', 0o600)
  await file.appendFile(salt)
  for (let number = 0, left = bytes; left > 0; number++) {
    const piece = await readWhole(source, Math.min(left, PIECE_BYTES))
    await file.appendFile(cipher.encrypt(piece, number, NO_DATA))
    left -= piece.length
  }
}

async function readWhole(file: FileHandle, bytes: number): Promise<Buffer> {
  const buffer = Buffer.alloc(bytes)
  for (let done = 0; done < bytes;) {
    const { bytesRead } = await file.read(buffer, done, bytes - done)
    if (bytesRead === 0) throw new Error('the file is shorter than it was')
    done += bytesRead
  }
  return buffer
}

// What cannot be removed costs disk, and is found again at the next start.
async function remove({ id, place }: Pick<WaitingArtifact, 'id' | 'place'>): Promise<void> {
  for (const kind of ['meta', 'data']) {
    await rm(join(place.folder, `${id}.${kind}`), { force: true }).catch(() => undefined)
  }
}
