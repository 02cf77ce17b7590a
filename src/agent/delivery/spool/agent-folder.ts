// The folder in which an agent keeps its name, its last monitors and results that are not delivered yet:
//   DATA_DIR/agents/<n>                 of one agent at a time; the first whose lock is free
//   DATA_DIR/agents/<n>/id              the agent's id, the same after a restart
//   DATA_DIR/agents/<n>/spool.<key>     results, encrypted; <key> is the fingerprint of the API key
// An agent without a folder runs all the same, reports the problem, and retries.
import { randomUUID } from 'node:crypto'
import { chmod, lstat, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { FolderLockedError, lockFolder, type FolderLock } from '../../../process/folder-lock.ts'
import { makeFolder } from '../../../process/make-folder.ts'
import { createAgentCipher, type AgentCipher } from './agent-cipher.ts'

/** Where an agent's folder is to be. */
export interface AgentFolderOptions {
  /** DATA_DIR; undefined: a folder for this key among the system's temporary files. */
  dataDir: string | undefined
  apiKey: string
  /** Keys that were API_KEY before, for what they encrypted. */
  formerKeys?: readonly string[]
  /** Between attempts to acquire a folder; 15 s by default. */
  retryMs?: number
  /**
   * Another agent acquired the folder, because this process was suspended for seconds or the folder was
   * removed. The other agent may use this agent's id: this one has to end.
   */
  onLost: () => void
}

/** A folder of files that one key encrypts. */
export interface EncryptedFolder {
  folder: string
  cipher: AgentCipher
}

/** Agents that share a DATA_DIR. */
const AGENT_FOLDERS_MAX = 256
const LOCK = 'lock'
/** Between attempts to reacquire a folder that was removed. */
const REACQUIRE_MS = 5000
/** Between attempts to acquire a folder after a start without one. */
const RETRY_MS = 15_000
const GUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** Work folders are in there as well, which the users of user code must come through to. */
const OPEN_TO_PASS = 0o711

/** Acquires the first free folder, or retries. Never rejects. */
export async function openAgentFolder(options: AgentFolderOptions): Promise<AgentFolder> {
  const folder = new AgentFolder(options)
  await folder.open()
  return folder
}

/** An agent's persistent files. */
export class AgentFolder {
  /** A GUID: the same after a restart, a new one without a folder. */
  id: string = randomUUID()
  readonly cipher: AgentCipher
  /** Of keys that were API_KEY before: they decrypt their data and encrypt nothing. */
  readonly formerCiphers: readonly AgentCipher[]
  /** Undefined: there is no folder for now, and `problem` says why. */
  path: string | undefined
  problem: string | undefined
  readonly #options: AgentFolderOptions
  readonly #onAvailable: (() => void)[] = []
  #lock: FolderLock | undefined
  #storedId: string | undefined
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: AgentFolderOptions) {
    this.#options = options
    this.cipher = createAgentCipher(options.apiKey)
    const formerKeys = (options.formerKeys ?? []).filter((one) => one !== options.apiKey)
    this.formerCiphers = formerKeys.map((one) => createAgentCipher(one))
  }

  async open(): Promise<void> {
    await this.#acquire()
    // Later its id stays what others know it by, whatever the folder says.
    this.id = this.#storedId ?? this.id
  }

  /** Whether the folder is this agent's now; while it is not, nothing may be written to it. */
  isHeld(): boolean {
    return this.#lock !== undefined
  }

  /** The folders of one kind of file, that of the present key first; none while there is no folder. */
  places(kind: 'spool' | 'artifacts'): EncryptedFolder[] {
    const { path } = this
    if (path === undefined) return []
    return [this.cipher, ...this.formerCiphers].map((cipher) => ({
      folder: join(path, `${kind}.${cipher.fingerprint}`),
      cipher,
    }))
  }

  /** Calls back once when the folder becomes available, if it is not yet. */
  onAvailable(callback: () => void): void {
    if (this.path === undefined) this.#onAvailable.push(callback)
  }

  /** Stores a small file, encrypted; replaces it atomically. Rejects when it cannot. */
  async store(name: string, bytes: Buffer | AsyncIterable<Buffer>): Promise<void> {
    if (this.path === undefined) throw new Error(this.problem)
    if (!this.isHeld()) throw new Error(`the folder ${this.path} was removed`)
    const encrypted = Buffer.isBuffer(bytes)
      ? this.cipher.encrypt(bytes, name)
      : this.cipher.encryptPieces(bytes, name)
    await replaceFile(join(this.path, name), encrypted)
  }

  /** The stored file of this name; undefined when there is none, or none that this key opens. */
  async read(name: string): Promise<Buffer | undefined> {
    if (this.path === undefined) return undefined
    const encrypted = await readFile(join(this.path, name)).catch(() => undefined)
    if (encrypted === undefined) return undefined
    for (const cipher of [this.cipher, ...this.formerCiphers]) {
      const opened = cipher.decrypt(encrypted, name)
      if (opened !== undefined) return opened
    }
    return undefined
  }

  /** Changes the id, because a copy of the folder is in use elsewhere. Rejects when it cannot be stored. */
  async renewId(): Promise<void> {
    this.id = randomUUID()
    if (this.path === undefined || !this.isHeld()) return
    this.#storedId = this.id
    await writeId(this.path, this.id)
  }

  /** Releases the folder. Safe to call twice. */
  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#release()
  }

  /** Acquires a folder; schedules a retry when that fails. */
  async #acquire(): Promise<void> {
    try {
      const { dataDir } = this.#options
      const temporary = join(tmpdir(), `vedette-${this.cipher.fingerprint}`)
      const root = dataDir ?? (await temporaryRoot(temporary))
      const path = await this.#lockFree(join(root, 'agents'))
      this.#storedId = await idOf(path, this.id)
      this.path = path
      this.problem = undefined
      if (this.#isClosed) return this.#release()
      for (const callback of this.#onAvailable.splice(0)) callback()
    } catch (error) {
      this.#release()
      this.problem = error instanceof Error ? error.message : String(error)
      if (!this.#isClosed) this.#retry(() => this.#acquire(), this.#options.retryMs ?? RETRY_MS)
    }
  }

  async #lockFree(neighbours: string): Promise<string> {
    for (let n = 1; n <= AGENT_FOLDERS_MAX; n++) {
      const path = join(neighbours, String(n))
      try {
        await this.#lockIn(path)
        return path
      } catch (error) {
        if (!(error instanceof FolderLockedError)) throw error
      }
    }
    throw new Error(`${AGENT_FOLDERS_MAX} agents use ${neighbours}; give this one another DATA_DIR`)
  }

  async #lockIn(path: string): Promise<void> {
    await makeFolder(dirname(dirname(path)), OPEN_TO_PASS)
    await makeFolder(path, 0o700)
    this.#lock = await lockFolder(path, LOCK, () => void this.#reacquire(path))
    // One that was unpacked from a backup may be open to others.
    await chmod(path, 0o700).catch(() => undefined)
  }

  /** The lock is lost: the folder was removed, or another agent has it. */
  async #reacquire(path: string): Promise<void> {
    this.#lock = undefined
    if (this.#isClosed) return
    try {
      await this.#lockIn(path)
      const isOurs = (await idOf(path, this.#storedId ?? this.id)) === this.#storedId
      if (!isOurs || this.#isClosed) this.#release()
      if (!isOurs) this.#options.onLost()
    } catch (error) {
      this.#release()
      if (error instanceof FolderLockedError) this.#options.onLost()
      else this.#retry(() => this.#reacquire(path), REACQUIRE_MS)
    }
  }

  #retry(act: () => Promise<void>, ms: number): void {
    this.#timer = setTimeout(() => void act(), ms).unref()
  }

  #release(): void {
    release(this.#lock)
    this.#lock = undefined
  }
}

/** Acquires the lock of another agent's folder; undefined when that agent runs, or the lock fails. */
export async function lockAgentFolder(
  path: string,
  onLost: () => void,
): Promise<FolderLock | undefined> {
  const lock = await lockFolder(path, LOCK, onLost).catch(() => undefined)
  return lock && { release: () => release(lock) }
}

// A folder that was removed in the meantime holds no lock that could be given back.
function release(lock: FolderLock | undefined): void {
  try {
    lock?.release()
  } catch {
    return
  }
}

/** Anybody may put a folder of any name among temporary files, so this one has to be our own. */
async function temporaryRoot(path: string): Promise<string> {
  await makeFolder(path, 0o700)
  const found = await lstat(path)
  const isOurs = process.getuid === undefined || found.uid === process.getuid()
  if (!found.isDirectory() || !isOurs || (found.mode & 0o022) !== 0) {
    throw new Error(`${path} belongs to another user, or is writable by others; set DATA_DIR`)
  }
  return path
}

/** The id in the folder, or this one, which is stored there. */
async function idOf(path: string, otherwise: string): Promise<string> {
  const text = (await readFile(join(path, 'id'), 'utf8').catch(() => '')).trim()
  if (GUID.test(text)) return text
  await writeId(path, otherwise)
  return otherwise
}

function writeId(path: string, id: string): Promise<void> {
  return replaceFile(join(path, 'id'), Buffer.from(`${id}\n`))
}

/** Writes the whole file or leaves the one that was there. */
export async function replaceFile(
  file: string,
  bytes: Buffer | AsyncIterable<Buffer>,
  isFlushed = true,
): Promise<void> {
  const draft = `${file}.${randomUUID()}`
  try {
    await writeFile(draft, bytes, { mode: 0o600, flush: isFlushed })
    await rename(draft, file)
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined)
    throw error
  }
}
