// `vedette apply` run in the test's process on a real public API, with what it wrote.
import { type ApplyOrder, runApply } from '../../../src/client/apply.ts'
import type { ApiClient, PublicApi } from '../platform/public-api.ts'

/** Options of the command. */
export interface ApplyOptions extends Partial<ApplyOrder> {
  signal?: AbortSignal
}

/** The settings with which a client applies files. */
export const applySettings = (api: PublicApi, { accountId, secret }: ApiClient) => ({
  PLATFORM_URL: api.url,
  ACCOUNT_ID: accountId,
  VEDETTE_API_KEY: secret,
})

/** Applies the file at `path`. */
export async function applyFile(
  path: string,
  env: Record<string, string>,
  { prune = false, planOnly = false, name, signal }: ApplyOptions = {},
) {
  let [out, err] = ['', '']
  const context = {
    env,
    write: (text: string) => void (out += text),
    complain: (text: string) => void (err += text),
    colour: false,
  }
  const order = { path, name, prune, planOnly }
  const code = await runApply(order, context, signal ?? new AbortController().signal)
  return { code, out, err, lines: out.trimEnd().split('\n') }
}
