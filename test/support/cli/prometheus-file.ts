// Prometheus' configuration of one job that scrapes blackbox_exporter, as its documentation has it.
import { stringify } from 'yaml'

/** Makes the address a parameter and a label, and scrapes the exporter instead. */
export const RELABELLING = [
  { source_labels: ['__address__'], target_label: '__param_target' },
  { source_labels: ['__param_target'], target_label: 'instance' },
  { target_label: '__address__', replacement: 'blackbox:9115' },
]

/** The file; `job` replaces fields of the job. */
export const prometheusOf = (targets: readonly string[], job = {}) =>
  stringify({
    scrape_configs: [
      {
        job_name: 'probes',
        metrics_path: '/probe',
        params: { module: ['m'] },
        static_configs: [{ targets, labels: { env: 'prod' } }],
        relabel_configs: RELABELLING,
        ...job,
      },
    ],
  })
