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
import type {
  SandboxOutcome,
  SandboxLayers,
  LaunchRequest,
  LaunchReport,
  SupervisorCommand,
  SupervisorEnd,
  SupervisorRequest,
  SupervisorReport,
} from '../request.ts'
import {
  libcFunction,
  prctl,
  PR_SET_CHILD_SUBREAPER,
  PR_SET_DUMPABLE,
} from '../../network/native/syscalls.ts'
import {
  descriptorPair,
  hangUp,
  receiveDescriptor,
} from '../../network/native/descriptor-passing.ts'
import { launchRequest } from '../launcher/launch-request.ts'
import { removeTree } from '../remove-tree.ts'
import { Meter } from './meter.ts'
import { endAll, Descendants } from './processes.ts'
import { answerQuestions } from './system-calls.ts'
import { mayDuplicateSockets } from './sockets.ts'

/** Descriptors that the agent opened for the run: standard input, output, error, and messages. */
const RUN_FDS = [3, 4, 5, 6]
const REPORT_BYTES_MAX = 16_384

/** Result of the exchange with the launcher. */
interface Launched {
  child: ChildProcess
  layers: SandboxLayers
  listener: number | undefined
}

/** Why there is no such thing. */
interface Unlaunched {
  problem: string
}

class Supervisor {
  readonly #order: SupervisorRequest
  readonly #descendants: Descendants
  readonly #meter: Meter
  #child: ChildProcess | undefined
  #outcome: SandboxOutcome | undefined
  #kill: (() => void) | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(order: SupervisorRequest) {
    this.#order = order
    this.#descendants = new Descendants(() => this.#child?.pid)
    const { limits, folder, userId } = order
    this.#meter = new Meter({ descendants: this.#descendants, limits, folder, userId }, (outcome) =>
      this.kill(outcome),
    )
  }

  /** Runs the code to its end; resolves when nothing of it runs. */
  async run(child: ChildProcess, socket: number): Promise<SupervisorEnd> {
    this.#child = child
    const exited = exitOf(child)
    const killed = new Promise<void>((resolve) => {
      this.#kill = resolve
    })
    const makesSockets = !mayDuplicateSockets()
    const line = launchRequest(this.#order, makesSockets)
    const launched = await this.#launched(launch(child, socket, line), killed)
    if ('problem' in launched) {
      hangUp(socket)
      return this.#end({ exited, problem: launched.problem })
    }
    report({ event: 'started', pid: child.pid ?? 0, layers: launched.layers })
    this.#meter.start()
    this.#timer = setTimeout(() => this.ask('out-of-time'), this.#order.limits.wallMs)
    const [descendants, meter, order] = [this.#descendants, this.#meter, this.#order]
    const questions =
      launched.listener === undefined
        ? undefined
        : answerQuestions(launched.listener, { order, descendants, meter, makesSockets, report })
    await Promise.race([exited, killed])
    questions?.close()
    return this.#end({ exited })
  }

  /** The launcher's result, within its time and unless the run is cancelled. */
  async #launched(
    launching: Promise<Launched | Unlaunched>,
    killed: Promise<void>,
  ): Promise<Launched | Unlaunched> {
    const { startMs } = this.#order
    const late = `it was not ready within ${durationText(startMs)}: the machine is overloaded, or holds it back`
    const stop = new AbortController()
    try {
      return await Promise.race([
        launching.catch((error: Error) => ({ problem: error.message })),
        killed.then(() => ({ problem: 'it was cancelled before it began' })),
        delay(startMs, { problem: late }, { signal: stop.signal }),
      ])
    } finally {
      stop.abort()
    }
  }

  /** Asks the command to end, and kills it when it does not. */
  ask(outcome: SandboxOutcome): void {
    if (this.#outcome !== undefined) return
    this.#outcome = outcome
    const { signal, to, graceMs, lateGraceMs = graceMs } = this.#order.ask
    clearTimeout(this.#timer)
    const patienceMs = outcome === 'out-of-time' ? lateGraceMs : graceMs
    this.#timer = setTimeout(() => this.#kill?.(), patienceMs)
    const pid = this.#child?.pid
    if (pid === undefined) return
    try {
      process.kill(to === 'group' ? -pid : pid, signal)
    } catch {
      // It has ended already.
    }
  }

  /** Ends it at once. */
  kill(outcome: SandboxOutcome): void {
    this.#outcome ??= outcome
    this.#kill?.()
  }

  async #end(how: { exited: Promise<Exit>; problem?: string }): Promise<SupervisorEnd> {
    clearTimeout(this.#timer)
    if (how.problem === undefined) this.#meter.look()
    this.#meter.stop()
    const { found, left } = await endAll(this.#descendants, this.#order.userId)
    // The command is a child of ours: when it does not end, nothing more can be done.
    const exit = await Promise.race([how.exited, delay(1_000, NEVER_ENDED, { ref: false })])
    if (how.problem === undefined) {
      await this.#meter.lookAtDisk().catch(() => {})
    }
    return {
      outcome: this.#outcome ?? (how.problem === undefined ? outcomeOf(exit) : 'sandbox-failed'),
      exitCode: exit.code,
      signal: exit.signal,
      ...(how.problem === undefined ? {} : { problem: how.problem }),
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
async function launch(
  child: ChildProcess,
  socket: number,
  order: LaunchRequest,
): Promise<Launched | Unlaunched> {
  writeAll(socket, Buffer.from(`${JSON.stringify(order)}\n`))
  const { bytes, descriptor } = await receiveDescriptor(socket, REPORT_BYTES_MAX)
  if (bytes.length === 0) return { problem: 'the launcher exited without a report' }
  const said = JSON.parse(bytes.toString()) as LaunchReport
  if ('problem' in said) return said
  // It becomes the command now, or says why not; the end of the conversation means that it has.
  const { bytes: rest } = await receiveDescriptor(socket, REPORT_BYTES_MAX)
  closeSync(socket)
  if (rest.length > 0) return JSON.parse(rest.toString()) as Unlaunched
  return { child, layers: said.ready, listener: descriptor }
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
