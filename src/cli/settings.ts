// Common set-up of commands: settings, output, log and dialler.
import { parseEnv } from 'node:util'
import { type AgentConfig, type ConfigReading, readAgentConfig } from '../agent/config.ts'
import { readText } from '../agent/monitors-file/text.ts'
import { createScrubber } from '../agent/redaction/scrub.ts'
import { isShortWord, PAGE } from '../contract/definition-secrets.ts'
import { Variable } from '../contract/monitor.ts'
import { createNameTest } from '../contract/protocol/sensitive-name.ts'
import { EXIT } from '../process/exit-codes.ts'
import { type EnvironmentProblem, problemText } from '../process/env.ts'
import type { FaultReports } from '../process/faults/reports.ts'
import { createLog, isForPeople, type LineSink, type Log, mayColour } from '../process/log.ts'
import type { Dialler } from '../network/dial.ts'
import { createDialler } from '../network/dialler.ts'
import { createNetworkPolicy } from '../network/network-policy.ts'
import { createResolver } from '../network/dns/resolver.ts'

const { env, stdout, stderr } = process

/** Environment and output of the commands on a platform. */
export const CONTEXT = {
  env,
  write: (text: string) => void stdout.write(text),
  complain: (text: string) => void stderr.write(text),
  colour: mayColour(stdout, env),
}

/** Shows a text in place of the last one, on a terminal alone. */
export function showProgress(text: string): void {
  if (isForPeople(stderr)) stderr.write(`\r\u001B[K${text}`)
}

/**
 * Reads the settings, with `monitorsFile` in place of that of the environment; prints their problems and returns the
 * exit code when they are invalid.
 */
export function settings(monitorsFile?: string): ConfigReading | number {
  const file = { MONITORS_FILE: monitorsFile, MONITORS_FILE_FILE: undefined }
  const given = monitorsFile === undefined ? env : { ...env, ...file }
  const reading = readAgentConfig({ env: given, stdout })
  return reading.problems.length === 0 ? reading : refuse(reading.problems)
}

/** Prints the problems of the settings; returns the exit code. */
export function refuse(problems: readonly EnvironmentProblem[]): number {
  stderr.write(`vedette: ${problemText(problems, 'agent')}`)
  return EXIT.configuration
}

/** Prints the problem of a command's arguments; returns the exit code. */
export function refuseCommand(command: string, problem: string): number {
  stderr.write(`vedette ${command}: ${problem}\n`)
  return EXIT.configuration
}

const ENV_FILE_BYTES_MAX = 1_048_576

/** The variables of a file of `NAME=value` lines, none where none is named, or a sentence on why it cannot be read. */
export async function readEnvFile(
  path: string | undefined,
): Promise<Record<string, string> | string> {
  if (path === undefined) return {}
  const read = await readText(path, ENV_FILE_BYTES_MAX)
  if ('problem' in read) return `--env-file ${path}: ${read.problem}`
  const values = parseEnv(read.text) as Record<string, string>
  for (const [key, value] of Object.entries(values)) {
    const [issue] = Variable.safeParse({ key, value, secret: true }).error?.issues ?? []
    if (issue === undefined) continue
    // What is read as a name may be a line of a key.
    const isIts = (line: string) => line.replace(/^\s*(?:export\s+)?/, '').startsWith(key)
    const line = read.text.split('\n').findIndex(isIts) + 1
    return `--env-file ${path}:${line}: the variable there: ${issue.message}`
  }
  return values
}

/** Creates a log without the secrets of the settings; its errors are reported to `faults`. */
export function logOf(
  { config, secrets }: ConfigReading,
  faults?: FaultReports,
  destination?: LineSink,
): Log {
  const scrubber = createScrubber({ secrets, headers: config.scrubHeaders })
  return createLog({
    ...(destination && { destination }),
    level: config.logLevel,
    pretty: isForPeople(stdout),
    colour: mayColour(stdout, env),
    scrubFields: (fields) => scrubber.value(fields),
    scrubText: (text) => scrubber.text(text),
    onError: faults && ((error) => faults.logged(error)),
  })
}

/** Creates diallers that obey the network settings. */
export function dialFrom(config: AgentConfig): (proxyUrl: string | undefined) => Dialler {
  const policy = createNetworkPolicy({
    blocked: [...config.blockedNetworks],
    allowed: [...config.allowedNetworks],
  })
  const resolver = createResolver({ useOsResolver: config.useOsResolver })
  return (proxyUrl: string | undefined) => createDialler({ policy, resolver, proxyUrl })
}

const isSensitive = createNameTest()

/**
 * Whether a variable of such a file is a secret: all are but words, such as `test`, short numbers and addresses of pages,
 * which stand in reports anyway, unless their name is that of a secret.
 */
export function isSecretVariable(name: string, value: string): boolean {
  const isOfSecret = isSensitive(name) || /(?:auth|key|pass|pin)$/i.test(name)
  return isOfSecret || !(isShortWord(value) || /^\d{1,5}$/.test(value) || PAGE.test(value))
}
