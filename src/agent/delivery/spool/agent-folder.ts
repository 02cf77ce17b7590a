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

/** An agent's persistent files. */
export interface AgentFolder {
  /** A GUID: the same after a restart, a new one without a folder. */
  readonly id: string
  readonly cipher: AgentCipher
  /** Of keys that were API_KEY before: they decrypt their data and encrypt nothing. */
  readonly formerCiphers: readonly AgentCipher[]
  /** Undefined: there is no folder for now, and `problem` says why. */
  readonly path: string | undefined
  readonly problem: string | undefined
  /** Where the folders of all agents of this DATA_DIR are. */
  readonly neighbours: string | undefined
  /** Whether the folder is this agent's now; while it is not, nothing may be written to it. */
  isHeld(): boolean
  /** Calls back once when the folder becomes available, if it is not yet. */
  onAvailable(callback: () => void): void
  /** Stores a small file, encrypted; replaces it atomically. Rejects when it cannot. */
  store(name: string, bytes: Buffer | AsyncIterable<Buffer>): Promise<void>
  /** The stored file of this name; undefined when there is none, or none that this key opens. */
  read(name: string): Promise<Buffer | undefined>
  /** Releases the folder. Safe to call twice. */
  close(): void
}

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
  const folder = new OwnFolder(options)
  await folder.open()
  return folder
}

/** Acquires the lock of another agent's folder; undefined when that agent runs, or the lock fails. */
export async function lockAgentFolder(
  path: string,
  onLost: () => void,
): Promise<FolderLock | undefined> {
  try {
    return await lockFolder(path, LOCK, onLost)
  } catch {
    return undefined
  }
}

async function acquireFree(neighbours: string): Promise<{ path: string; hold: Hold }> {
  for (let n = 1; n <= AGENT_FOLDERS_MAX; n++) {
    const path = join(neighbours, String(n))
    const hold = new Hold(path)
    try {
      await hold.acquire()
      return { path, hold }
    } catch (error) {
      if (!(error instanceof FolderLockedError)) throw error
    }
  }
  throw new Error(`${AGENT_FOLDERS_MAX} agents use ${neighbours}; give this one another DATA_DIR`)
}

/** Keeps a folder locked, and reacquires it after its removal. */
class Hold {
  readonly #path: string
  #lock: FolderLock | undefined
  #isOver = false
  #timer: NodeJS.Timeout | undefined
  #id: string | undefined
  #onLost: (() => void) | undefined

  constructor(path: string) {
    this.#path = path
  }

  isHeld(): boolean {
    return this.#lock !== undefined
  }

  async acquire(): Promise<void> {
    await makeFolder(dirname(dirname(this.#path)), OPEN_TO_PASS)
    await makeFolder(this.#path, 0o700)
    this.#lock = await lockFolder(this.#path, LOCK, () => void this.#reacquire())
    // One that was unpacked from a backup may be open to others.
    await chmod(this.#path, 0o700).catch(() => undefined)
  }

  assignTo(id: string, onLost: () => void): void {
    this.#id = id
    this.#onLost = onLost
  }

  release(): void {
    this.#isOver = true
    clearTimeout(this.#timer)
    giveBack(this.#lock)
    this.#lock = undefined
  }

  async #reacquire(): Promise<void> {
    this.#lock = undefined
    if (this.#isOver) return
    try {
      await this.acquire()
      const stored = await idOf(this.#path, this.#id)
      if (stored !== this.#id) throw new FolderReassignedError()
      if (this.#isOver) this.release()
    } catch (error) {
      giveBack(this.#lock)
      this.#lock = undefined
      if (error instanceof FolderLockedError || error instanceof FolderReassignedError) {
        this.#onLost?.()
      } else {
        this.#timer = setTimeout(() => void this.#reacquire(), REACQUIRE_MS)
        this.#timer.unref()
      }
    }
  }
}

/** Another agent had the folder in the meantime. */
class FolderReassignedError extends Error {}

/** Anybody may put a folder of any name among temporary files, so this one has to be our own. */
async function temporaryRoot(path: string): Promise<string> {
  await makeFolder(path, 0o700)
  const found = await lstat(path)
  const isOurs = process.getuid === undefined || found.uid === process.getuid()
  if (!found.isDirectory() || !isOurs || (found.mode & 0o022) !== 0) {
    throw new Error(`${path} belongs to somebody else, or others may write to it; set DATA_DIR`)
  }
  return path
}

async function idOf(path: string, otherwise = randomUUID() as string): Promise<string> {
  const file = join(path, 'id')
  const text = (await readFile(file, 'utf8').catch(() => '')).trim()
  if (GUID.test(text)) return text
  await replace(file, Buffer.from(`${otherwise}\n`))
  return otherwise
}

/** Writes the whole file or leaves the one that was there. */
async function replace(file: string, bytes: Buffer | AsyncIterable<Buffer>): Promise<void> {
  const draft = `${file}.${randomUUID()}`
  try {
    await writeFile(draft, bytes, { mode: 0o600, flush: true })
    await rename(draft, file)
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined)
    throw error
  }
}

class OwnFolder implements AgentFolder {
  id: string = randomUUID()
  readonly cipher: AgentCipher
  readonly formerCiphers: readonly AgentCipher[]
  problem: string | undefined
  readonly #options: AgentFolderOptions
  #owned: { path: string; neighbours: string; hold: Hold } | undefined
  readonly #onAvailable: (() => void)[] = []
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: AgentFolderOptions) {
    this.#options = options
    this.cipher = createAgentCipher(options.apiKey)
    const formerKeys = (options.formerKeys ?? []).filter((one) => one !== options.apiKey)
    this.formerCiphers = formerKeys.map((one) => createAgentCipher(one))
  }

  get path(): string | undefined {
    return this.#owned?.path
  }

  get neighbours(): string | undefined {
    return this.#owned?.neighbours
  }

  async open(): Promise<void> {
    // Later its id stays what others know it by, whatever the folder says.
    const id = await this.#acquire()
    if (id !== undefined) this.id = id
  }

  isHeld(): boolean {
    return this.#owned?.hold.isHeld() === true
  }

  onAvailable(callback: () => void): void {
    if (this.#owned === undefined) this.#onAvailable.push(callback)
  }

  async store(name: string, bytes: Buffer | AsyncIterable<Buffer>): Promise<void> {
    const { cipher } = this
    const path = this.path
    if (path === undefined) throw new Error(this.problem)
    if (!this.isHeld()) throw new Error(`the folder ${path} is gone`)
    const encrypted = Buffer.isBuffer(bytes)
      ? cipher.encrypt(bytes, name)
      : cipher.encryptPieces(bytes, name)
    await replace(join(path, name), encrypted)
  }

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

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    this.#owned?.hold.release()
  }

  /** Acquires a folder, and resolves with the id in it; schedules a retry when that fails. */
  async #acquire(): Promise<string | undefined> {
    try {
      const { dataDir, onLost } = this.#options
      const temporary = join(tmpdir(), `vedette-${this.cipher.fingerprint}`)
      const root = dataDir ?? (await temporaryRoot(temporary))
      const neighbours = join(root, 'agents')
      await makeFolder(root, OPEN_TO_PASS)
      await makeFolder(neighbours, 0o700)
      const { path, hold } = await acquireFree(neighbours)
      const id = await idOf(path, this.id).catch((error: unknown) => {
        hold.release()
        throw error
      })
      hold.assignTo(id, onLost)
      this.#owned = { path, neighbours, hold }
      this.problem = undefined
      if (this.#isClosed) hold.release()
      return id
    } catch (error) {
      this.problem = error instanceof Error ? error.message : String(error)
      if (!this.#isClosed) this.#trySoon()
      return undefined
    }
  }

  #trySoon(): void {
    this.#timer = setTimeout(() => void this.#acquireLate(), this.#options.retryMs ?? RETRY_MS)
    this.#timer.unref()
  }

  async #acquireLate(): Promise<void> {
    const id = await this.#acquire()
    if (id === undefined || this.#isClosed) return
    for (const callback of this.#onAvailable.splice(0)) callback()
  }
}

// A folder that was removed in the meantime holds no lock that could be given back.
function giveBack(lock: FolderLock | undefined): void {
  try {
    lock?.release()
  } catch {
    return
  }
}
