// Certificate authorities that the agent trusts beside Node's own (NODE_EXTRA_CA_CERTS), handed on to people's
// code: behind a proxy that looks into TLS, neither a registry nor a site could be trusted without them.
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { getCACertificates } from 'node:tls'

/**
 * Writes them into a run's own folder, since the run's user need not be able to read the agent's file. Gives
 * the variable for the run's environment; nothing where the agent has none.
 */
export async function extraAuthorities(folder: string): Promise<Record<string, string>> {
  const certificates = getCACertificates('extra')
  if (certificates.length === 0) return {}
  await mkdir(folder, { recursive: true })
  const path = join(folder, 'authorities.pem')
  await writeFile(path, certificates.join('\n'))
  return { NODE_EXTRA_CA_CERTS: path }
}
