// The agent's side of one run: sends commands to the supervisor, reads the run's output within its limit, and
// receives the report of its end. If the supervisor itself dies, the processes of the run are killed from here.
import type { ChildProcess } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { jsonOf } from '../contract/exact-json.ts'
import { durationText } from '../contract/schema/amounts.ts'
import { LIMITS } from '../contract/versions.ts'
import { DeadlineReached, isDeadline } from '../network/deadline.ts'
import {
  graceMsOf,
  sandboxFailed,
  type BlockedConnection,
  type SandboxLayers,
  type SupervisorCommand,
  type SupervisorEnd,
  type SupervisorRequest,
  type SupervisorReport,
  type SandboxRequest,
  type OutputStream,
  type SandboxEnd,
} from './request.ts'
import { endLeftovers } from './leftover-processes.ts'
import { memoryKills } from './container-memory.ts'
import { LineSplitter } from './lines.ts'

const TAIL_BYTES_MAX = 65_536
/** One report of the supervisor, or one message of the run. */
const LINE_BYTES_MAX = 1_048_576
/** How long the pipes of an ended run have to close by themselves. */
const CLOSE_MS_MAX = 1_000

export class SandboxWatch {
  readonly #order: SandboxRequest
  readonly #request: SupervisorRequest
  readonly #supervisor: ChildProcess
  readonly #tails: Record<OutputStream, Tail> = { stdout: new Tail(), stderr: new Tail() }
  readonly #blocked: BlockedConnection[] = []
  readonly #complaints = new Tail()
  #outputBytes = 0
  /** Streams of a run that wrote too much. */
  readonly #paused = new Set<Readable>()
  #layers: SandboxLayers | undefined
  #leader: number | undefined
  #end: SupervisorEnd | undefined
  #fault: Error | undefined
  readonly #killsBefore = memoryKills()
  /** The moment at which the supervisor must have ended. */
  #endsBy = Infinity
  #timer: NodeJS.Timeout | undefined
  #isLate = false

  /** Hands the request over to the supervisor. */
  constructor(order: SandboxRequest, request: SupervisorRequest, supervisor: ChildProcess) {
    this.#order = order
    this.#request = request
    this.#supervisor = supervisor
    this.#listen()
    const { startMs, limits, ask } = request
    const graceMs = Math.max(ask.graceMs, graceMsOf(ask, 'out-of-time'))
    this.#endWithin(startMs + limits.wallMs + graceMs)
    this.#write(request)
    const stdin = this.#stream(3) as Writable
    if (order.input === undefined) stdin.end()
    else order.input.pipe(stdin)
  }

  #send(command: SupervisorCommand): void {
    const { outcome } = command
    this.#endWithin(command.do === 'ask' ? graceMsOf(this.#request.ask, outcome) : 0)
    this.#write(command)
  }

  /** The supervisor is killed when it has not ended by then, and cleared up; a later moment changes nothing. */
  #endWithin(ms: number): void {
    const at = performance.now() + ms
    if (at >= this.#endsBy) return
    this.#endsBy = at
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#isLate = true
      this.#supervisor.kill('SIGKILL')
    }, ms + LIMITS.supervisorLateMsMax)
  }

  /**
   * Resolves when nothing of the run is left and its output is read; when the signal is aborted, it is asked to end.
   * Never rejects.
   */
  async ended(signal: AbortSignal): Promise<SandboxEnd> {
    const stop = () =>
      this.#send({ do: 'ask', outcome: isDeadline(signal) ? 'out-of-time' : 'cancelled' })
    signal.addEventListener('abort', stop)
    if (signal.aborted) stop()
    const code = await exitOf(this.#supervisor)
    signal.removeEventListener('abort', stop)
    clearTimeout(this.#timer)
    this.#endsBy = -Infinity
    // The exit of another child may report this one as well, before its final messages were read.
    await closed([this.#stream(1)])
    const end = this.#end ?? (await this.#supervisorDied(code))
    await this.#outputsClosed()
    const { limits } = this.#request
    const wanted = this.#order.limits.memoryBytes
    const { reason } = signal
    return {
      ...end,
      ...this.#refined(end),
      ...(this.#fault === undefined ? {} : { outcome: 'sandbox-failed', fault: this.#fault }),
      tail: { stdout: this.#tails.stdout.text(), stderr: this.#tails.stderr.text() },
      outputBytes: this.#outputBytes,
      blocked: this.#blocked,
      ...(this.#layers === undefined ? {} : { layers: this.#layers }),
      limits: reason instanceof DeadlineReached ? { ...limits, wallMs: reason.deadlineMs } : limits,
      ...(limits.memoryBytes < wanted ? { memoryBytesWanted: wanted } : {}),
    }
  }

  #stream(fd: number): Readable | Writable {
    return this.#supervisor.stdio[fd] as Readable | Writable
  }

  #write(line: object): void {
    const control = this.#stream(0) as Writable
    if (control.writable) control.write(`${JSON.stringify(line)}\n`)
  }

  #listen(): void {
    for (const fd of [0, 1, 2, 3, 4, 5, 6]) this.#stream(fd).on('error', ignore)
    this.#supervisor.on('error', (error) => this.#complaints.add(Buffer.from(error.message)))
    eachJson(this.#stream(1) as Readable, (said) => this.#receive(said as SupervisorReport))
    ;(this.#stream(2) as Readable).on('data', (chunk: Buffer) => this.#complaints.add(chunk))
    this.#readOutput(this.#stream(4) as Readable, 'stdout')
    this.#readOutput(this.#stream(5) as Readable, 'stderr')
    const messages = this.#stream(6) as Readable
    eachJson(messages, (said) => this.#guarded(() => this.#order.onMessage?.(said)))
    // Messages are output, too: without end they would keep the agent busy.
    messages.on('data', (chunk: Buffer) => this.#count(chunk.length, messages))
  }

  #receive(said: SupervisorReport): void {
    if (said.event === 'started') {
      this.#layers = said.layers
      this.#leader = said.pid
    } else if (said.event === 'blocked') {
      this.#blocked.push(said.blocked)
    } else {
      this.#end = said.end
    }
  }

  #readOutput(stream: Readable, name: OutputStream): void {
    stream.on('data', (chunk: Buffer) => {
      if (!this.#count(chunk.length, stream)) return
      this.#tails[name].add(chunk)
      this.#guarded(() => this.#order.onOutput?.(chunk, name))
    })
  }

  /** A fault of a listener must not end the agent, nor go unnoticed. */
  #guarded(act: () => void): void {
    if (this.#fault !== undefined) return
    try {
      act()
    } catch (error) {
      this.#fault = error instanceof Error ? error : new Error(String(error))
      this.#send({ do: 'kill', outcome: 'sandbox-failed' })
    }
  }

  /** Whether the run may write that much more. Where not, its output is paused until it is killed. */
  #count(bytes: number, stream: Readable): boolean {
    this.#outputBytes += bytes
    if (this.#outputBytes <= this.#order.limits.outputBytes) return true
    if (this.#paused.size === 0) this.#send({ do: 'kill', outcome: 'out-of-output' })
    this.#paused.add(stream)
    stream.pause()
    return false
  }

  async #supervisorDied(code: number | null): Promise<SupervisorEnd> {
    const { userId, folder } = this.#request
    const leftBehind = await endLeftovers({ userId, leader: this.#leader, folder })
    const late = `it did not end within ${durationText(LIMITS.supervisorLateMsMax)} after its limit`
    const why = this.#isLate ? late : this.#complaints.text().trim()
    const exit = code ?? this.#supervisor.signalCode
    const problem = `the supervisor died with ${exit}${why === '' ? '' : `: ${why}`}`
    return sandboxFailed(problem, leftBehind)
  }

  /** Refines what looks like a crash or a failure of the code, and was a shortage of memory. */
  #refined(end: SupervisorEnd): Partial<SandboxEnd> {
    if (end.outcome !== 'signalled' && (end.outcome !== 'exited' || end.exitCode === 0)) return {}
    // Of a run with many processes the kernel ends the largest: a browser's page, and the test fails.
    if (memoryKills() > this.#killsBefore) {
      return { outcome: 'out-of-memory', scarce: 'container' }
    }
    // An engine that is out of its heap aborts; only its final message distinguishes that from a crash.
    const aborted = end.signal === 'SIGABRT' || end.signal === 'SIGTRAP' || end.exitCode === 134
    const isHeap = aborted && HEAP_EXHAUSTED.test(this.#tails.stderr.text())
    return isHeap ? { outcome: 'out-of-memory', scarce: 'heap' } : {}
  }

  async #outputsClosed(): Promise<void> {
    for (const one of this.#paused) one.destroy()
    await closed([4, 5, 6].map((fd) => this.#stream(fd)))
    for (const one of this.#supervisor.stdio) one?.destroy()
  }
}

/** Resolves when all of these have closed, or should have. */
async function closed(streams: readonly (Readable | Writable)[]): Promise<void> {
  const closing = streams
    .filter((one) => !one.closed)
    .map((one) => new Promise((resolve) => one.once('close', resolve)))
  const late = Promise.withResolvers<void>()
  // If this process itself was delayed, what has come meanwhile is read first.
  const timer = setTimeout(() => setImmediate(late.resolve), CLOSE_MS_MAX)
  await Promise.race([Promise.all(closing), late.promise])
  clearTimeout(timer)
}

const HEAP_EXHAUSTED = /JavaScript heap out of memory|Reached heap limit|out of memory/i

const ignore = () => {}

function exitOf(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve) => {
    child.on('exit', (code) => resolve(code))
    child.on('error', () => resolve(null))
  })
}

/** Calls back with each line's JSON; what is none, or longer than the bound, is dropped. */
function eachJson(stream: Readable, each: (said: unknown) => void): void {
  const lines = new LineSplitter(LINE_BYTES_MAX)
  stream.on('data', (chunk: Buffer) => {
    for (const line of lines.add(chunk)) {
      const said = jsonOf(line)
      if (said !== undefined) each(said)
    }
  })
}

/** The last bytes of a stream. */
class Tail {
  #chunks: Buffer[] = []
  #bytes = 0
  #isCut = false

  add(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
    for (let first = this.#chunks[0]; first !== undefined; first = this.#chunks[0]) {
      if (this.#bytes - first.length < TAIL_BYTES_MAX) return
      this.#bytes -= first.length
      this.#chunks.shift()
      this.#isCut = true
    }
  }

  /** Where its beginning is cut off stands an ellipsis: scrubbing looks there for parts of secrets. */
  text(): string {
    const all = Buffer.concat(this.#chunks)
    if (!this.#isCut && all.length <= TAIL_BYTES_MAX) return all.toString()
    return `…${all
      .subarray(-TAIL_BYTES_MAX)
      .toString()
      .replace(/^\uFFFD+/, '')}`
  }
}
