// `vedette engine` and `vedette runtime`: install the programs that user code runs on, with npm.
import { installTool } from '../scripts/tool-install.ts'
import {
  imageFix,
  imageWith,
  knownTools,
  openToolchains,
  type Toolchains,
  type ToolKind,
} from '../scripts/toolchains.ts'
import { readToolsFolder, TOOLS_VARIABLES } from '../agent/config.ts'
import { EXIT } from '../process/exit-codes.ts'
import type { Arguments, Command } from '../process/command-line.ts'
import { isForPeople } from '../process/log.ts'
import { nameFix } from '../process/nearest.ts'
import { onInterrupt } from './interruption.ts'
import { refuse, refuseCommand, showProgress } from './settings.ts'

const { env, stdout, stderr } = process

/** Kinds of tools by command: engines are of little use without package managers. */
const KINDS = { engine: ['engine', 'package-manager'], runtime: ['runtime'] } as const
type ToolsCommand = keyof typeof KINDS

const namesOf = (command: ToolsCommand) => KINDS[command].flatMap((kind) => knownTools(kind))

async function toolsCommand(command: ToolsCommand, args: Arguments): Promise<number> {
  const [action, name] = args.positionals
  const { folder, problems } = readToolsFolder(env)
  if (problems.length > 0) return refuse(problems)
  const toolchains = openToolchains(folder, env['VEDETTE_IMAGE'])
  if (action === 'list') {
    if (name !== undefined) return refuseCommand(command, 'list takes no name')
    for (const kind of KINDS[command]) await list(kind, toolchains)
    return 0
  }
  const kind = KINDS[command].find((one) => knownTools(one).includes(name ?? ''))
  if (name !== undefined && kind !== undefined) {
    if (!toolchains.canInstall) {
      return refuseCommand(
        command,
        `nothing can be installed in this image; ${imageFix(kind, name)}`,
      )
    }
    return installHere(kind, name, toolchains, { again: args.on('again') })
  }
  const known = namesOf(command)
  const what = name === undefined ? 'the name is missing' : `unknown name ${JSON.stringify(name)}`
  return refuseCommand(command, `${what}; ${nameFix(name ?? '', known)}`)
}

async function list(kind: ToolKind, toolchains: Toolchains): Promise<void> {
  for (const name of knownTools(kind)) {
    const tool = await toolchains.find(kind, name)
    stdout.write(`${name.padEnd(10)} ${tool === undefined ? 'not installed' : tool.folder}\n`)
  }
}

export interface InstallOptions {
  /** Installs it again where it is installed already. */
  again?: boolean
  /** Receives the outcome; default: standard output. */
  write?: (text: string) => void
}

/** Installs a tool and shows the progress; resolves with the exit code: 0, 1, or that of the signal. */
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
  using interruption = onInterrupt()
  const { signal } = interruption
  const endProgress = showInstalling(name)
  try {
    const order = { kind, name, folder: toolchains.folder, env, signal }
    const outcome = await installTool(order).finally(endProgress)
    if ('problem' in outcome) {
      const isFixed = env['VEDETTE_IMAGE'] !== undefined && NO_WRITING.test(outcome.problem)
      const also = isFixed ? fixInImages(kind, name) : ''
      stderr.write(`${name} was not installed: ${outcome.problem}${also}\n`)
      return EXIT.failed
    }
    write(`${name} is installed in ${outcome.tool.folder}\n`)
    for (const one of outcome.tool.missing) {
      write(`  without ${one}: the registry does not have it\n`)
    }
    return 0
  } catch (error) {
    if (!signal.aborted) throw error
    stderr.write(`${name} was not installed: interrupted\n`)
    return interruption.codeOr(EXIT.failed)
  }
}

const NO_WRITING = /\b(?:EROFS|EACCES)\b/

/** Advice for images, whose own folders are read-only. */
function fixInImages(kind: ToolKind, name: string): string {
  const image = imageWith(kind, name)
  const advice = image === undefined ? '' : `use the image ${image}, which includes it, or `
  return `\nFolders of an image are read-only: ${advice}set TOOLS_DIR to another folder, for all engines and runtimes`
}

const PROGRESS_MS = 1000

/** Shows the time in one line on a terminal until the returned function is called; elsewhere prints one line. */
function showInstalling(name: string): () => void {
  if (!isForPeople(stderr)) {
    stderr.write(`installing ${name} …\n`)
    return () => {}
  }
  const since = performance.now()
  const timer = setInterval(() => {
    showProgress(`installing ${name}: ${Math.round((performance.now() - since) / 1000)} s`)
  }, PROGRESS_MS)
  return () => {
    clearInterval(timer)
    showProgress('')
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
    positionals: ['<install|list>', '[name]'],
    description:
      `${description} Known: ${namesOf(command).join(', ')}.\n` +
      'npm fetches the pinned versions into TOOLS_DIR; an interrupted installation leaves nothing behind.\n' +
      'Exit code 0: installed; 1: failed; 2: invalid arguments or settings; 130, 143: interrupted.',
    options: { again: { help: 'reinstall it' } },
    variables: TOOLS_VARIABLES,
    examples: [
      [`vedette ${command} list`, 'shows which are installed, and where'],
      [`vedette ${command} install ${example}`, 'installs one'],
    ],
    run: (args) => toolsCommand(command, args),
  }
}

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
