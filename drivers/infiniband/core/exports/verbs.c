// SPDX-License-Identifier: GPL-2.0

#include <linux/export.h>
#include <rdma/ib_verbs.h>

#include "core_priv.h"

EXPORT_SYMBOL(ib_event_msg);
EXPORT_SYMBOL(ib_wc_status_msg);
EXPORT_SYMBOL(ib_rate_to_mult);
EXPORT_SYMBOL(mult_to_ib_rate);
EXPORT_SYMBOL(ib_rate_to_mbps);
EXPORT_SYMBOL(ib_port_attr_to_speed_info);
EXPORT_SYMBOL(rdma_node_get_transport);
EXPORT_SYMBOL(rdma_port_get_link_layer);
EXPORT_SYMBOL(__ib_alloc_pd);
EXPORT_SYMBOL(ib_dealloc_pd_user);
EXPORT_SYMBOL(rdma_copy_ah_attr);
EXPORT_SYMBOL(rdma_replace_ah_attr);
EXPORT_SYMBOL(rdma_move_ah_attr);
EXPORT_SYMBOL(rdma_create_ah);
EXPORT_SYMBOL(rdma_create_user_ah);
EXPORT_SYMBOL(ib_get_rdma_header_version);
EXPORT_SYMBOL(ib_get_gids_from_rdma_hdr);
EXPORT_SYMBOL(ib_init_ah_attr_from_wc);
EXPORT_SYMBOL(rdma_move_grh_sgid_attr);
EXPORT_SYMBOL(rdma_destroy_ah_attr);
EXPORT_SYMBOL(ib_create_ah_from_wc);
EXPORT_SYMBOL(rdma_modify_ah);
EXPORT_SYMBOL(rdma_query_ah);
EXPORT_SYMBOL(rdma_destroy_ah_user);
EXPORT_SYMBOL(ib_create_srq_user);
EXPORT_SYMBOL(ib_modify_srq);
EXPORT_SYMBOL(ib_query_srq);
EXPORT_SYMBOL(ib_destroy_srq_user);
EXPORT_SYMBOL(ib_open_qp);
EXPORT_SYMBOL(ib_create_qp_user);
EXPORT_SYMBOL(ib_qp_usecnt_inc);
EXPORT_SYMBOL(ib_qp_usecnt_dec);
EXPORT_SYMBOL(ib_create_qp_kernel);
EXPORT_SYMBOL(ib_modify_qp_is_ok);
EXPORT_SYMBOL(ib_modify_qp_with_udata);
EXPORT_SYMBOL(ib_get_eth_speed);
EXPORT_SYMBOL(ib_modify_qp);
EXPORT_SYMBOL(ib_query_qp);
EXPORT_SYMBOL(ib_close_qp);
EXPORT_SYMBOL(ib_destroy_qp_user);
EXPORT_SYMBOL(__ib_create_cq);
EXPORT_SYMBOL(rdma_set_cq_moderation);
EXPORT_SYMBOL(ib_destroy_cq_user);
EXPORT_SYMBOL(ib_reg_user_mr);
EXPORT_SYMBOL(ib_advise_mr);
EXPORT_SYMBOL(ib_dereg_mr_user);
EXPORT_SYMBOL(ib_alloc_mr);
EXPORT_SYMBOL(ib_alloc_mr_integrity);
EXPORT_SYMBOL(ib_attach_mcast);
EXPORT_SYMBOL(ib_detach_mcast);
EXPORT_SYMBOL(ib_alloc_xrcd_user);
EXPORT_SYMBOL(ib_dealloc_xrcd_user);
EXPORT_SYMBOL(ib_create_wq);
EXPORT_SYMBOL(ib_destroy_wq_user);
EXPORT_SYMBOL(ib_check_mr_status);
EXPORT_SYMBOL(ib_set_vf_link_state);
EXPORT_SYMBOL(ib_get_vf_config);
EXPORT_SYMBOL(ib_get_vf_stats);
EXPORT_SYMBOL(ib_set_vf_guid);
EXPORT_SYMBOL(ib_get_vf_guid);
EXPORT_SYMBOL(ib_map_mr_sg_pi);
EXPORT_SYMBOL(ib_map_mr_sg);
EXPORT_SYMBOL(ib_sg_to_pages);
EXPORT_SYMBOL(ib_drain_sq);
EXPORT_SYMBOL(ib_drain_rq);
EXPORT_SYMBOL(ib_drain_qp);
EXPORT_SYMBOL(rdma_alloc_netdev);
EXPORT_SYMBOL(rdma_init_netdev);
EXPORT_SYMBOL(rdma_alloc_hw_stats_struct);
EXPORT_SYMBOL(rdma_free_hw_stats_struct);
