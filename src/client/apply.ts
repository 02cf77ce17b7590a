// `vedette apply`: makes a platform's monitors, groups and variables those of a file. The platform
// compares and changes; here the file is read, sent, and the plan shown.
import { basename } from 'node:path'
import type { ApplyRequest } from '../contract/api/apply.ts'
import { EXIT_CONFIGURATION } from '../process/command-line.ts'
import { type Environment, problemText } from '../process/env.ts'
import { ApplyError, callApply } from './apply-call.ts'
import { type FileBundle, withFileBundles } from './apply-bundles.ts'
import { type ApplyTarget, readApplyTarget } from './config.ts'
import { changesAnything, findingsOf, planText } from './apply-plan.ts'
import { bringBundle, missingBundles } from './bundle-call.ts'
import { countedProblems, formatProblem, type Problem } from '../agent/monitors-file/problems.ts'
import {
  type FileToApply,
  type ReadFileToApply,
  readFileToApply,
} from '../agent/monitors-file/file.ts'

/** Exit code of a plan that changes something. */
const EXIT_CHANGES = 1
/** Exit code when the platform cannot be reached or fails. */
const EXIT_UNREACHABLE = 3

const DEADLINE_MS = 300_000

/** The options of the command. */
export interface ApplyOrder {
  path: string
  /** The name of the file on the platform; its base name by default. */
  name: string | undefined
  prune: boolean
  /** Shows what would change and changes nothing. */
  planOnly: boolean
}

/** The settings and the output of the command. */
export interface ApplyContext {
  env: Environment
  write(text: string): void
  complain(text: string): void
  colour: boolean
  /** Aborts the call. */
  signal: AbortSignal
}

/** The request that a file stands for. Its monitors are named by their ids in it. */
export function applyRequestOf(file: FileToApply, order: ApplyOrder): ApplyRequest {
  const { location, privateLocations } = file
  const otherwise = location === undefined ? [] : [location]
  return {
    name: order.name ?? basename(order.path),
    prune: order.prune,
    dryRun: order.planOnly,
    locations: privateLocations.length > 0 ? privateLocations : otherwise,
    groups: [...file.groups].flatMap(([key, definition]) =>
      definition === undefined ? [] : [{ key, definition }],
    ),
    monitors: file.monitors.map(({ monitor: { id, ...definition }, group }) => ({
      key: id,
      ...(group === undefined ? {} : { group }),
      definition,
    })),
    variables: file.variables,
  }
}

/**
 * Applies the file; resolves with the exit code: 0 done or nothing to do, 1 a plan that changes
 * something, 2 the file or the settings are bad or the platform refuses them, 3 no platform.
 */
export async function runApply(order: ApplyOrder, around: ApplyContext): Promise<number> {
  const { target, problems } = readApplyTarget(around.env)
  if (problems.length > 0) {
    around.complain(`vedette: ${problemText(problems)}`)
    return EXIT_CONFIGURATION
  }
  const read = await readFileToApply(order.path, around.env)
  if (!read.ok) return complain(read.problems, around)
  for (const one of read.warnings) around.complain(`warning: ${formatProblem(one)}\n`)
  try {
    return await withFileBundles(read.file, order.path, (bundled) => {
      if ('findings' in bundled) return complain(read.locate(bundled.findings), around)
      return applyBundled({ ...read, file: bundled.file }, bundled.bundles, {
        order,
        target,
        around,
      })
    })
  } catch (error) {
    if (!(error instanceof ApplyError)) throw error
    around.complain(`vedette apply: ${withoutKey(error.message, target)}\n`)
    return error.code === 'refused' ? EXIT_CONFIGURATION : EXIT_UNREACHABLE
  }
}

/** Uploads the missing bundles, and then the file that names them. Throws ApplyError. */
async function applyBundled(
  { file, locate }: Extract<ReadFileToApply, { ok: true }>,
  bundles: readonly FileBundle[],
  { order, target, around }: { order: ApplyOrder; target: ApplyTarget; around: ApplyContext },
): Promise<number> {
  const { signal } = around
  const missing = await missingBundles(target, bundles, signal)
  const request = applyRequestOf(file, order)
  if (order.planOnly && missing.length > 0) request.bundles = missing.map(({ sha256 }) => sha256)
  else for (const one of missing) await bringBundle(target, one, signal)
  const answer = await callApply(target, request, { signal, deadlineMs: DEADLINE_MS })
  if (answer.problems.length > 0) return complain(locate(findingsOf(answer.problems, file)), around)
  around.write(planText(answer, { colour: around.colour, bundles: missing }))
  if (!changesAnything(answer) && missing.length === 0) return 0
  if (order.planOnly) return EXIT_CHANGES
  around.write(answer.applied ? 'applied\n' : 'not applied\n')
  return answer.applied ? 0 : EXIT_UNREACHABLE
}

function complain(problems: readonly Problem[], around: ApplyContext): number {
  around.complain(problems.map((one) => `${formatProblem(one)}\n`).join(''))
  const count = countedProblems(problems)
  around.complain(`vedette apply: ${count} in the monitors file; nothing was changed\n`)
  return EXIT_CONFIGURATION
}

/** Hides the key in messages of a server or a proxy. */
function withoutKey(message: string, { apiKey, proxyUrl }: ApplyTarget): string {
  const { password = '' } = URL.parse(proxyUrl ?? '') ?? {}
  return [apiKey, password]
    .filter((one) => one !== '')
    .reduce((text, secret) => text.replaceAll(secret, '***'), message)
}
