// `vedette test`: runs a check suite here and now, as the agent would.
import { copyFile, stat } from 'node:fs/promises'
import { dirname, join, resolve, sep } from 'node:path'
import { exitCodeOf } from '../agent/run/check.ts'
import type { AgentConfig } from '../agent/config.ts'
import { variableSecrets } from '../contract/definition-secrets.ts'
import { NamedTexts } from '../agent/run/named-texts.ts'
import { ALL_SCRUBBED, createScrubber, scrubsAll } from '../agent/redaction/scrub.ts'
import { SuiteLive } from '../agent/run/suite-live.ts'
import { chooseEngine, ENGINE_NAMES } from '../contract/engine.ts'
import { Monitor } from '../contract/monitor.ts'
import type { Result } from '../contract/result.ts'
import { ENGINES } from '../contract/runtimes.ts'
import { objections } from '../contract/schema/explain.ts'
import { SuiteMonitor } from '../monitors/suite/definition.ts'
import type { Arguments, Command } from '../process/command-line.ts'
import { mayColour } from '../process/log.ts'
import { nameFix } from '../process/nearest.ts'
import type { AnyMonitorType } from '../monitors/monitor.ts'
import { suite } from '../monitors/suite/index.ts'
import { quoted } from '../suites/command.ts'
import type { ScriptContext } from '../scripts/context.ts'
import { onInterrupt } from './interruption.ts'
import { runsHere } from './local-runs.ts'
import { scriptHost } from './script-host.ts'
import { isSecretVariable, readEnvFile, refuseCommand, settings } from './settings.ts'
import { storedFilesIn } from './stored-files.ts'

const { env, stdout, stderr } = process

const OFFERED = [...ENGINES.keys()]

async function testCommand(args: Arguments): Promise<number> {
  const folder = resolve(args.positionals[0] ?? '.')
  const reading = settings(folder)
  if (typeof reading === 'number') return reading
  const found = await stat(folder).catch(() => undefined)
  if (found === undefined) return refuseCommand('test', `${folder} does not exist`)
  if (!found.isDirectory() && !found.isFile())
    return refuseCommand('test', `${folder} is not a folder or file`)
  const monitor = await monitorFor(folder, args)
  if (typeof monitor === 'string') return refuseCommand('test', monitor)
  const junit = args.value('junit')
  // The usual folder of test results; bundles leave it out.
  const place = found.isDirectory() ? folder : process.cwd()
  const output = resolve(args.value('output') ?? join(place, 'test-results', 'vedette'))
  const missing = junit === undefined ? undefined : await missingFolder(junit, output)
  if (missing !== undefined)
    return refuseCommand('test', `--junit ${junit}: the folder ${missing} does not exist`)
  const { result, code } = await runTests(reading.config, monitor, args.on('json'), output)
  if (junit !== undefined) await copyFile(join(output, 'junit.xml'), junit).catch(reportMissing)
  if (args.on('json')) stdout.write(`${JSON.stringify(result)}\n`)
  return code
}

/** The missing folder of the file; undefined when it exists or the run creates it. */
async function missingFolder(file: string, output: string): Promise<string | undefined> {
  const folder = dirname(resolve(file))
  if (`${output}${sep}`.startsWith(`${folder}${sep}`)) return undefined
  const found = await stat(folder).catch(() => undefined)
  return found?.isDirectory() === true ? undefined : folder
}

function reportMissing(error: Error): void {
  stderr.write(`vedette test: no JUnit file was written: ${error.message}\n`)
}

/** The suite of the arguments, or a sentence on what is wrong with them. */
async function monitorFor(folder: string, args: Arguments): Promise<Monitor | string> {
  const engine = args.value('engine')
  const [name, version] = engine?.split('@') ?? []
  const known = ENGINE_NAMES.find((one) => one === name)
  if (engine !== undefined && known === undefined) {
    return `--engine ${engine}: unknown engine; ${nameFix(engine, OFFERED)}`
  }
  const chosen = known === undefined ? undefined : chooseEngine(known, version)
  // A project may ask for a similar version; --engine means exactly that one.
  const why = typeof chosen === 'string' ? chosen : chosen?.notice && 'is not offered'
  if (why !== undefined) return `--engine ${engine}: ${why}; known are ${OFFERED.join(', ')}`
  const values = await readEnvFile(args.value('env-file'))
  if (typeof values === 'string') return values
  const chosenTests = ['project', 'grep'].flatMap((option) => {
    const value = args.value(option)
    return value === undefined ? [] : [`--${option}=${quoted(value)}`]
  })
  const definition = {
    id: 'test',
    name: folder.split('/').at(-1) ?? 'test',
    checkType: 'PLAYWRIGHT',
    codeBundlePath: folder,
    environmentVariables: Object.entries(values).map(([key, value]) => {
      const secret = isSecretVariable(key, value)
      return { key, value, locked: secret, secret }
    }),
    testCommand: [args.value('command') ?? 'npx playwright test', ...chosenTests].join(' '),
    ...(known === undefined ? {} : { engine: known }),
    ...(version === undefined ? {} : { engineVersion: version }),
    ...(args.on('no-install') ? { installCommand: '' } : {}),
  }
  const parsed = SuiteMonitor.safeParse(definition)
  if (parsed.success) return Monitor.parse(definition)
  return objections(parsed.error, SuiteMonitor, definition)
    .map(({ path, message }) => `${path.join('.')}: ${message}`)
    .join('; ')
}

async function runTests(
  config: AgentConfig,
  monitor: Monitor,
  quiet: boolean,
  output: string,
): Promise<{ result: Result; code: number }> {
  const host = scriptHost(config)
  const secrets = variableSecrets(monitor.environmentVariables)
  const scrub = createScrubber({ secrets, headers: config.scrubHeaders })
  let named = new NamedTexts(scrub)
  // Called with whole lines.
  const say = (text: string) => {
    stderr.write(named.text(text).replace(/\n?$/, '\n'))
  }
  const live = new SuiteLive(say, mayColour(stderr, env))
  const watched: AnyMonitorType = {
    ...suite,
    prepare: (settled) => async (context) => {
      // Loaded only here: other commands start without it.
      const { runSuite } = await import('../suites/run.ts')
      const watcher = quiet ? {} : { onEvent: live.event.bind(live) }
      return runSuite(settled as SuiteMonitor, context as ScriptContext, host, watcher)
    },
  }
  const workFolders = new Set<string>()
  using interruption = onInterrupt('test', workFolders)
  const snapshot = { location: config.location, variables: [], monitors: [] }
  const runHere = runsHere(config, snapshot, host, {
    types: new Map([[suite.checkType, watched]]),
    source: 'TEST_NO_RECORD',
    workFolders,
    files: storedFilesIn(output),
    onNamed: (ofRun) => (named = ofRun),
  })
  const result = await runHere({ monitor, slot: Date.now() }, interruption.signal)
  host.close()
  if (!quiet) {
    say(live.closing(result))
    stderr.write(live.summary(result))
    if (scrubsAll(named.scrubber())) stderr.write(`left out: ${ALL_SCRUBBED}\n`)
    if (result.artifacts.length > 0) stderr.write(`files: ${output}\n`)
  }
  return { result, code: interruption.codeOr(exitCodeOf([result])) }
}

export const TEST_COMMAND: Command = {
  name: 'test',
  summary: 'Run a check suite on this machine, as the agent would',
  positionals: ['[folder]'],
  description:
    'Runs the Playwright project of a folder, or of a .tar.gz, with its packages installed by its lock ' +
    'file, on the engine that it asks for, sandboxed as in the agent. Default: the current folder.\n' +
    'Exit code 0: passed or degraded; 1: anything else; 2: the arguments or the settings are invalid; ' +
    '130 and 143: it was interrupted, by Ctrl-C or SIGTERM, and what was recorded until then is shown.',
  options: {
    engine: { value: '<engine>', help: 'node@22, node@24, node@26 or bun@1.3' },
    project: { value: '<name>', help: 'run only this project of the configuration' },
    grep: { value: '<pattern>', help: 'run only tests whose titles or tags match' },
    command: { value: '<command>', help: 'the test command; default: npx playwright test' },
    'env-file': {
      value: '<file>',
      help: 'variables for the tests, NAME=value; scrubbed, but for words, short numbers and addresses of pages',
    },
    'no-install': { help: 'use the packages in the folder; install none' },
    output: { value: '<folder>', help: 'folder for files; default: test-results/vedette' },
    json: { help: 'print only the result, as JSON' },
    junit: { value: '<file>', help: 'write JUnit XML for CI systems' },
  },
  examples: [
    ['vedette test', 'runs the suite of this folder'],
    ['vedette test ./e2e --engine bun@1.3', 'runs another one, on Bun'],
    ['vedette test --grep @smoke --junit results.xml', 'runs some of its tests'],
  ],
  run: testCommand,
}
