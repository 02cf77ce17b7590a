// The supervisor of one run of user code: a process between the agent and the code. It starts the launcher,
// meters what runs, answers for the network, asks it to end when the agent says so, and leaves only when
// nothing of it is left, also when the agent has died.
import { closeSync, writeSync } from 'node:fs'
import { spawn, type ChildProcess } from 'node:child_process'
import { flushCompileCache } from 'node:module'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { faultText } from '../../process/faults/fault.ts'
import { durationText } from '../../contract/schema/amounts.ts'
import {
  graceMsOf,
  type SandboxOutcome,
  type SandboxLayers,
  type LaunchReport,
  type SupervisorCommand,
  type SupervisorEnd,
  type SupervisorRequest,
  type SupervisorReport,
} from '../request.ts'
import {
  libcFunction,
  prctl,
  PR_SET_CHILD_SUBREAPER,
  PR_SET_DUMPABLE,
} from '../../network/native/syscalls.ts'
import { DeadlineReached, untilAborted, withDeadline } from '../../network/deadline.ts'
import {
  descriptorPair,
  hangUp,
  receiveDescriptor,
} from '../../network/native/descriptor-passing.ts'
import { removeTree } from '../remove-tree.ts'
import { Meter } from './meter.ts'
import { endAll, Descendants } from './processes.ts'
import { answerQuestions } from './system-calls.ts'

/** Descriptors that the agent opened for the run: standard input, output, error, and messages. */
const RUN_FDS = [3, 4, 5, 6]
const REPORT_BYTES_MAX = 16_384

interface Launched {
  layers: SandboxLayers
  listener: number | undefined
}

class Supervisor {
  readonly #order: SupervisorRequest
  readonly #descendants: Descendants
  readonly #meter: Meter
  /** Aborted when it is to be killed. */
  readonly #killing = new AbortController()
  #child: ChildProcess | undefined
  #outcome: SandboxOutcome | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(order: SupervisorRequest) {
    this.#order = order
    this.#descendants = new Descendants(() => this.#child?.pid)
    this.#meter = new Meter(order, this.#descendants, (outcome) => this.kill(outcome))
  }

  /** Runs the code to its end; resolves when nothing of it runs. */
  async run(child: ChildProcess, socket: number): Promise<SupervisorEnd> {
    this.#child = child
    const exited = exitOf(child)
    const { startMs } = this.#order
    let launched: Launched
    try {
      launched = await withDeadline(this.#killing.signal, startMs, (signal) =>
        untilAborted(launch(socket, this.#order), signal),
      )
    } catch (error) {
      hangUp(socket)
      const late = `it was not ready within ${durationText(startMs)}: the machine is overloaded`
      return this.#end(exited, error instanceof DeadlineReached ? late : (error as Error).message)
    }
    const { layers, listener } = launched
    report({ event: 'started', pid: child.pid ?? 0, layers })
    this.#meter.start()
    this.#timer = setTimeout(() => this.ask('out-of-time'), this.#order.limits.wallMs)
    const [order, descendants, meter] = [this.#order, this.#descendants, this.#meter]
    const questions =
      listener === undefined
        ? undefined
        : answerQuestions(listener, { order, descendants, meter, report })
    await untilAborted(exited, this.#killing.signal).catch(() => {})
    questions?.close()
    return this.#end(exited)
  }

  /** Asks the command to end, and kills it when it does not. */
  ask(outcome: SandboxOutcome): void {
    if (this.#outcome !== undefined) return
    this.#outcome = outcome
    const { ask } = this.#order
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.kill(outcome), graceMsOf(ask, outcome))
    const pid = this.#child?.pid
    if (pid === undefined) return
    try {
      process.kill(ask.to === 'group' ? -pid : pid, ask.signal)
    } catch {
      // It has ended already.
    }
  }

  kill(outcome: SandboxOutcome): void {
    this.#outcome ??= outcome
    this.#killing.abort(new Error('it was cancelled before it began'))
  }

  async #end(exited: Promise<Exit>, problem?: string): Promise<SupervisorEnd> {
    clearTimeout(this.#timer)
    const hasBegun = problem === undefined
    if (hasBegun) this.#meter.look()
    this.#meter.stop()
    const { found, left } = await endAll(this.#descendants, this.#order.userId)
    // The command is a child of ours: when it does not end, nothing more can be done.
    const exit = await Promise.race([exited, delay(1_000, NEVER_ENDED, { ref: false })])
    if (hasBegun) await this.#meter.lookAtDisk().catch(() => {})
    return {
      outcome: this.#outcome ?? (hasBegun ? outcomeOf(exit) : 'sandbox-failed'),
      exitCode: exit.code,
      signal: exit.signal,
      ...(hasBegun ? {} : { problem }),
      usage: this.#meter.usage(),
      leftovers: found,
      leftBehind: left,
    }
  }
}

interface Exit {
  code: number | null
  signal: NodeJS.Signals | null
}

const NEVER_ENDED: Exit = { code: null, signal: null }

function exitOf(child: ChildProcess): Promise<Exit> {
  return new Promise((resolve) => {
    child.on('exit', (code, signal) => resolve({ code, signal }))
    child.on('error', () => resolve(NEVER_ENDED))
  })
}

function outcomeOf({ signal }: Exit): SandboxOutcome {
  // The kernel's own bounds, for one process and for one file.
  if (signal === 'SIGXCPU') return 'out-of-cpu'
  if (signal === 'SIGXFSZ') return 'out-of-disk'
  return signal === null ? 'exited' : 'signalled'
}

/** Starts the launcher before anything is known of the run: both need time to start. */
function spawnLauncher(): { child: ChildProcess; socket: number } {
  const [ours, theirs] = descriptorPair()
  const launcher = fileURLToPath(new URL('../launcher/launcher.ts', import.meta.url))
  const flags = ['--max-semi-space-size=1', '--disable-warning=ExperimentalWarning']
  const child = spawn(process.execPath, [...flags, launcher], {
    stdio: [...RUN_FDS, theirs],
    env: process.env,
    detached: true,
  })
  for (const fd of [...RUN_FDS, theirs]) closeSync(fd)
  return { child, socket: ours }
}

/** Sends the order to the launcher and receives its report. */
async function launch(socket: number, order: SupervisorRequest): Promise<Launched> {
  writeAll(socket, Buffer.from(`${JSON.stringify(order)}\n`))
  const { report: ready, descriptor } = await receiveReport(socket)
  if (ready === undefined) throw new Error('the launcher exited without a report')
  // It becomes the command now, or says why not; the end of the conversation means that it has.
  await receiveReport(socket)
  closeSync(socket)
  return { layers: ready, listener: descriptor }
}

/** The launcher's next report, undefined after its last one. Rejects with its problem. */
async function receiveReport(socket: number) {
  const { bytes, descriptor } = await receiveDescriptor(socket, REPORT_BYTES_MAX)
  if (bytes.length === 0) return { report: undefined, descriptor }
  const said = JSON.parse(bytes.toString()) as LaunchReport
  if ('problem' in said) throw new Error(said.problem)
  return { report: said.ready, descriptor }
}

function writeAll(fd: number, bytes: Buffer): void {
  for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at)
}

function report(what: SupervisorReport): void {
  try {
    writeAll(1, Buffer.from(`${JSON.stringify(what)}\n`))
  } catch {
    // The agent has died; the end of its calls says the same.
  }
}

async function main(): Promise<void> {
  prctl(PR_SET_CHILD_SUBREAPER, 1)
  // The run may be of the same user: it must not look into this process.
  prctl(PR_SET_DUMPABLE, 0)
  const { child, socket } = spawnLauncher()
  const lines = createInterface({ input: process.stdin, crlfDelay: Infinity })
  let supervisor: Supervisor | undefined
  let folder: string | undefined
  let agentDied = false
  const ended = Promise.withResolvers<void>()
  lines.on('line', (line) => {
    if (supervisor === undefined) {
      const order = JSON.parse(line) as SupervisorRequest
      folder = order.folder
      supervisor = new Supervisor(order)
      void supervisor
        .run(child, socket)
        .then((outcome) => agentDied || report({ event: 'ended', end: outcome }))
        .then(() => ended.resolve(), ended.reject)
      return
    }
    const command = JSON.parse(line) as SupervisorCommand
    if (command.do === 'ask') supervisor.ask(command.outcome)
    else supervisor.kill(command.outcome)
  })
  lines.on('close', () => {
    agentDied = true
    if (supervisor === undefined) ended.resolve()
    else supervisor.kill('cancelled')
  })
  await ended.promise
  if (agentDied && folder !== undefined) await removeTree(folder)
}

/** Says nothing of the order, which holds secrets. */
function endWith(fault: unknown): void {
  process.stderr.write(faultText(fault))
  process.exit(1)
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
process.on('uncaughtException', endWith)
await main().catch(endWith)
flushCompileCache()
// Without the farewells of Node.js: it has been seen to wait for a thread of its own for ever, long after the run.
libcFunction('void _exit(int)')(0)
