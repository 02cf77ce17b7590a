// What a run uses, looked at while it runs: processor time, memory, processes, and bytes below its folder.
import type { SandboxLimits, SandboxOutcome, SandboxUsage, SupervisorRequest } from '../request.ts'
import { RankedSessions } from './priority.ts'
import { SupervisorDisk } from './disk.ts'
import {
  asUser,
  factsOf,
  textOf,
  TICK_MS,
  type Descendants,
  type ProcessFacts,
} from './processes.ts'

const LOOK_EVERY_MS = 100
/** The same while less than half of the memory is in use: a program needs time to fill the rest. */
const CALM_LOOK_EVERY_MS = 250
const CALM_SHARE = 0.5
const DISK_EVERY_MS = 500
/** Refused forks after which the code counts as one that never stops. */
const REFUSED_MAX = 100
/** Every observed process may have forked one more, which is observed only later. */
const OVERSHOOT = 2

/** Meters a run; `exceeded` is called once, with the first bound that is passed. */
export class Meter {
  readonly #descendants: Descendants
  readonly #limits: SandboxLimits
  readonly #disk: SupervisorDisk
  readonly #userId: number | undefined
  readonly #exceeded: (outcome: SandboxOutcome) => void
  readonly #startedAt = performance.now()
  readonly #usage = { cpuMs: 0, peakMemoryBytes: 0, processesMax: 0, diskBytes: 0 }
  readonly #memory: Memory
  readonly #sessions: RankedSessions
  /** Processor time before the run began, the sandbox's own. */
  #cpuBeforeMs = 0
  #timer: NodeJS.Timeout | undefined
  #diskTimer: NodeJS.Timeout | undefined
  #isOn = false
  #memoryBytes = 0
  /** Processes at the last look, and those forked since. */
  #processes = 1
  #refused = 0

  constructor(
    { limits, folder, userId }: SupervisorRequest,
    descendants: Descendants,
    exceeded: (outcome: SandboxOutcome) => void,
  ) {
    this.#descendants = descendants
    this.#limits = limits
    this.#disk = new SupervisorDisk(folder, limits.diskBytes, userId)
    this.#userId = userId
    this.#exceeded = exceeded
    this.#memory = new Memory(limits.memoryBytes)
    this.#sessions = new RankedSessions(userId)
  }

  /** Begins; what was used until now is the sandbox's own. */
  start(): void {
    this.#cpuBeforeMs = processorMs(this.#countProcesses())
    this.#isOn = true
    this.#later()
    this.#diskLater()
  }

  stop(): void {
    this.#isOn = false
    clearTimeout(this.#timer)
    clearTimeout(this.#diskTimer)
  }

  /** A process is about to be born, unless it is one too many. */
  mayFork(): boolean {
    if (this.#processes >= this.#limits.processes) this.#countProcesses()
    if (this.#processes < this.#limits.processes) {
      this.#processes++
      return true
    }
    if (++this.#refused > REFUSED_MAX) this.#exceed('too-many-processes')
    return false
  }

  /** What was used, until now. */
  usage(): SandboxUsage {
    return { wallMs: Math.round(performance.now() - this.#startedAt), ...this.#usage }
  }

  /** Looks at all but the disk, now. */
  look(): void {
    const all = this.#countProcesses()
    const usage = this.#usage
    usage.cpuMs = Math.max(usage.cpuMs, processorMs(all) - this.#cpuBeforeMs)
    const memoryBytes = this.#memory.of(all, this.#userId)
    this.#memoryBytes = memoryBytes
    usage.peakMemoryBytes = Math.max(usage.peakMemoryBytes, memoryBytes)
    if (usage.cpuMs > this.#limits.cpuMs) this.#exceed('out-of-cpu')
    else if (memoryBytes > this.#limits.memoryBytes) this.#exceed('out-of-memory')
    else if (all.length > this.#limits.processes * OVERSHOOT) this.#exceed('too-many-processes')
  }

  /** Looks at the disk, now. */
  async lookAtDisk(): Promise<void> {
    const bytes = await this.#disk.count(this.#descendants.look())
    this.#usage.diskBytes = Math.max(this.#usage.diskBytes, bytes)
    if (bytes > this.#limits.diskBytes) this.#exceed('out-of-disk')
  }

  /** One that has ended and that nobody waits for keeps its place. */
  #countProcesses(): ProcessFacts[] {
    const all = this.#descendants.look()
    this.#processes = all.length
    this.#usage.processesMax = Math.max(this.#usage.processesMax, all.length)
    this.#sessions.rank(all)
    return all
  }

  #later(): void {
    const isCalm = this.#memoryBytes < this.#limits.memoryBytes * CALM_SHARE
    const everyMs = isCalm ? CALM_LOOK_EVERY_MS : LOOK_EVERY_MS
    this.#timer = setTimeout(() => {
      this.look()
      if (this.#isOn) this.#later()
    }, everyMs)
  }

  #diskLater(): void {
    const look = () => (this.#disk.mayHaveGrown() ? this.lookAtDisk() : Promise.resolve())
    this.#diskTimer = setTimeout(() => {
      void look()
        .catch(() => {})
        .then(() => (this.#isOn ? this.#diskLater() : undefined))
    }, DISK_EVERY_MS)
  }

  #exceed(outcome: SandboxOutcome): void {
    if (!this.#isOn) return
    this.stop()
    this.#exceeded(outcome)
  }
}

/**
 * Processor time of the processes, and of ended children that were waited for (proc(5), stat). The kernel forgets
 * children of a process that ignores SIGCHLD: RLIMIT_CPU limits each of those alone.
 */
function processorMs(all: readonly ProcessFacts[]): number {
  const own = factsOf(process.pid)?.childTicks ?? 0
  return all.reduce((sum, one) => sum + one.ownTicks + one.childTicks, own) * TICK_MS
}

/** How much of the limit may be missed by not looking closely. */
const ESTIMATED_UP_TO = 0.9

/**
 * Memory of the processes together, without the pages of files. What is shared counts again for each who
 * shares it, and an exact look is expensive: it is done only when too much may have come since last time.
 */
class Memory {
  readonly #limitBytes: number
  #estimated = 0
  #bytes = 0

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  of(all: readonly ProcessFacts[], userId: number | undefined): number {
    const estimated = all.reduce((sum, { pid }) => sum + ownBytes(pid), 0)
    const bytes = Math.max(0, this.#bytes + estimated - this.#estimated)
    if (bytes <= this.#limitBytes * ESTIMATED_UP_TO) return bytes
    this.#estimated = estimated
    this.#bytes = all.reduce(
      (sum, { pid }) => sum + (asUser(userId, () => dividedBytes(pid)) ?? ownBytes(pid)),
      0,
    )
    return this.#bytes
  }
}

/** Anonymous and shared memory of a process, shared pages in full (proc(5), status). */
function ownBytes(pid: number): number {
  return kibibytesOf(textOf(pid, 'status'), 'RssAnon', 'RssShmem')
}

/** The same, with shared pages divided among those who share them. */
function dividedBytes(pid: number): number | undefined {
  const text = textOf(pid, 'smaps_rollup')
  return text === '' ? undefined : kibibytesOf(text, 'Pss_Anon', 'Pss_Shmem')
}

function kibibytesOf(text: string, ...names: string[]): number {
  const kibibytes = names.map((name) => {
    const at = text.indexOf(`\n${name}:`)
    return at < 0 ? 0 : Number.parseInt(text.slice(at + name.length + 2, at + 40), 10)
  })
  return kibibytes.reduce((sum, one) => sum + one, 0) * 1024
}
